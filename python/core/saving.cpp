// Saving: to a file, to memory, in the background, and to folders of checkpoints.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "bytes_sink.h"
#include "encode.h"
#include "errors.h"
#include "examining.h"
#include "interruptible.h"
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "espalier/checkpoint_dir.h"
#include "espalier/codec/compression_level.h"
#include "espalier/foreign/safetensors/writer.h"
#include "espalier/save.h"
#include "espalier/save_async.h"
#include "espalier/save_foreign.h"
#include "files/delta/join_parts.h"
#include "files/delta/open_base.h"
#include "files/folder/needed_files.h"
#include "files/save/model_folder.h"

namespace espalier::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

Views views_of(bool copy) { return copy ? Views::kCopy : Views::kError; }

SaveOptions options_of(nb::handle metadata, int compression, bool sync, bool replace,
                       unsigned threads) {
  SaveOptions options;
  options.metadata = encode(metadata, Views::kError).value;
  options.compression_level = compression;
  options.sync = sync;
  options.replace = replace;
  options.threads = threads;
  return options;
}

// Runs a save that takes the options with progress and a flag to cancel it. Returns the faults that
// `check` has found in its state.
template <class Save>
nb::list save_interruptibly(const nb::object& progress, SaveOptions options,
                            const std::string& where, const Save& save,
                            const StateCheck& check = StateCheck()) {
  check.add_to(options);
  auto result = run_interruptibly(
      progress, [&](const Progress& tell, const std::atomic<bool>& cancel) -> Result<void> {
        options.progress = tell;
        options.cancel = &cancel;
        return save(options);
      });
  if (nb::object refusal = check.refusal(); refusal.is_valid()) raise(refusal);
  must(std::move(result), where);
  return check.faults();
}

// Opens the bases of a save at `path`; the exception of one that fails names it.
std::vector<OpenBase> open_bases(const std::vector<nb::bytes>& names, const std::string& path) {
  std::vector<OpenBase> bases;
  for (const nb::bytes& name : names) {
    const std::string base = path_of(name);
    bases.push_back(must(
        open_base(base, path,
                  [](const std::filesystem::path& file) { return CheckpointFile::open(file); }),
        base));
  }
  return bases;
}

nb::list save_file(const nb::bytes& name, nb::handle state, nb::handle metadata, int compression,
                   bool sync, bool replace, unsigned threads, bool copy_views,
                   const std::vector<nb::bytes>& base_names, bool patches,
                   const nb::object& progress, const std::string& check) {
  const StateCheck checking(check);
  const std::string path = path_of(name);
  const Encoded encoded = encode(state, views_of(copy_views));
  const auto bases = open_bases(base_names, path);
  SaveOptions options =
      options_of(encoded.with_attributes(metadata), compression, sync, replace, threads);
  options.bases = bases_of(bases);
  options.patches = patches;
  return save_interruptibly(
      progress, std::move(options), path,
      [&](const SaveOptions& told) { return save(path, encoded.value, told); }, checking);
}

KeyPath key_path_of(const std::string& text, const std::string& where) {
  return must(KeyPath::parse(text), where);
}

// Of a part: the number of its base, its key path there, and its offset in the whole.
using Part = std::tuple<std::size_t, std::string, std::vector<std::uint64_t>>;

void save_joined_file(
    const nb::bytes& name, nb::handle state, nb::handle metadata, int compression, bool sync,
    unsigned threads, const std::vector<nb::bytes>& base_names,
    const std::vector<std::pair<std::vector<std::string>, std::vector<Part>>>& tensors) {
  const std::string path = path_of(name);
  const Encoded encoded = encode(state, Views::kCopy);
  const auto opened = open_bases(base_names, path);
  const auto bases = bases_of(opened);
  std::vector<JoinedTensor> joined;
  for (const auto& [places, parts] : tensors) {
    JoinedTensor tensor;
    for (const std::string& place : places) tensor.paths.push_back(key_path_of(place, path));
    for (const auto& [base, place, offset] : parts) {
      const auto node = opened.at(base).file.state().find(key_path_of(place, path));
      const auto there = node ? node->tensor() : std::nullopt;
      if (!there) throw nb::value_error("no tensor of the file");  // which was just written
      tensor.parts.push_back({base, *there, offset});
    }
    joined.push_back(std::move(tensor));
  }
  save_interruptibly(
      nb::none(), options_of(encoded.with_attributes(metadata), compression, sync, true, threads),
      path, [&](const SaveOptions& options) {
        return save_joined(path, encoded.value, bases, joined, options);
      });
}

// The names of what the files of a folder refer to, those named in `leaving` not counted.
std::vector<nb::bytes> needed_files_of(const nb::bytes& folder,
                                       const std::vector<nb::bytes>& leaving) {
  const std::string path = path_of(folder);
  std::set<std::string> names;
  for (const nb::bytes& name : leaving) names.insert(path_of(name));
  const std::set<std::string> needed = must(needed_files(path, names), path);
  std::vector<nb::bytes> result;
  for (const std::string& name : needed) result.emplace_back(name.data(), name.size());
  return result;
}

nb::bytes save_bytes(nb::handle state, nb::handle metadata, int compression, unsigned threads,
                     bool copy_views) {
  const Encoded encoded = encode(state, views_of(copy_views));
  BytesSink sink;
  save_interruptibly(
      nb::none(), options_of(encoded.with_attributes(metadata), compression, true, true, threads),
      "", [&](const SaveOptions& options) { return save(sink, encoded.value, options); });
  return sink.take();
}

Unrepresentable unrepresentable_of(const std::string& name) {
  if (name == "error") return Unrepresentable::kError;
  if (name == "drop") return Unrepresentable::kDrop;
  if (name == "metadata") return Unrepresentable::kMetadata;
  throw nb::value_error("not a policy");  // The package checks it.
}

// (count, [(path, what)] of the first), with the hint of errors in the words of Python.
nb::tuple losses_of(Result<Losses> saved, const std::string& where) {
  if (!saved && saved.error().message.ends_with(kUnrepresentableHint)) {
    std::string& message = saved.error().message;
    message.resize(message.size() - kUnrepresentableHint.size());
    message +=
        "; carry the whole tree in the file's metadata (unrepresentable=\"metadata\"), or leave "
        "out "
        "what does not fit (unrepresentable=\"drop\")";
  }
  const Losses losses = must(std::move(saved), where);
  nb::list first;
  for (const Loss& loss : losses.first()) first.append(nb::make_tuple(loss.path, loss.what));
  return nb::make_tuple(losses.count(), first);
}

// Attributes belong to the labels of their dicts: a file without these has none of them.
nb::object carried(const Encoded& encoded, nb::handle metadata, Unrepresentable policy) {
  return policy == Unrepresentable::kMetadata ? encoded.with_attributes(metadata)
                                              : nb::borrow(metadata);
}

nb::tuple save_safetensors_file(const nb::bytes& name, nb::handle state, nb::handle metadata,
                                const std::string& unrepresentable, bool sync, bool replace,
                                bool check_ending, unsigned threads, bool copy_views,
                                const nb::object& progress) {
  const std::string path = path_of(name);
  const Unrepresentable policy = unrepresentable_of(unrepresentable);
  const Encoded encoded = encode(state, views_of(copy_views));
  SaveOptions options =
      options_of(carried(encoded, metadata, policy), kNoCompression, sync, replace, threads);
  options.check_ending = check_ending;
  options.unrepresentable = policy;
  Result<Losses> saved = Losses();
  save_interruptibly(progress, options, path, [&](const SaveOptions& told) -> Result<void> {
    saved = save_safetensors(path, encoded.value, told);
    return {};
  });
  return losses_of(std::move(saved), path);
}

nb::bytes save_safetensors_bytes(nb::handle state, nb::handle metadata,
                                 const std::string& unrepresentable, unsigned threads,
                                 bool copy_views) {
  const Unrepresentable policy = unrepresentable_of(unrepresentable);
  const Encoded encoded = encode(state, views_of(copy_views));
  SaveOptions options =
      options_of(carried(encoded, metadata, policy), kNoCompression, true, true, threads);
  options.unrepresentable = policy;
  BytesSink sink;
  Result<Losses> saved = Losses();
  save_interruptibly(nb::none(), options, "", [&](const SaveOptions& told) -> Result<void> {
    saved = save_safetensors(sink, encoded.value, told);
    return {};
  });
  losses_of(std::move(saved), "");
  return sink.take();
}

// A model of several files. The old one stays until replace().
class NewModel {
 public:
  NewModel(const nb::bytes& folder, const std::string& single, const std::string& index, bool sync,
           bool replace)
      : where_(path_of(folder)), options_(std::make_unique<SaveOptions>()) {
    options_->sync = sync;
    options_->replace = replace;
    folder_.emplace(must(ModelFolder::open(where_, {single, index}, *options_), where_));
  }

  nb::tuple add(const std::string& name, nb::handle state, nb::handle metadata,
                const std::string& unrepresentable, unsigned threads, bool copy_views,
                const nb::object& progress) {
    const std::string path = (std::filesystem::path(where_) / name).string();
    const Encoded encoded = encode(state, views_of(copy_views));
    SaveOptions options = options_of(metadata, kNoCompression, options_->sync, true, threads);
    options.unrepresentable = unrepresentable_of(unrepresentable);
    FileSink sink = must(folder_->create(name), path);
    Result<Losses> saved = Losses();
    save_interruptibly(progress, options, path, [&](const SaveOptions& told) -> Result<void> {
      HeldSink held(sink);
      saved = save_safetensors(held, encoded.value, told);
      return {};
    });
    nb::tuple losses = losses_of(std::move(saved), path);
    files_.push_back({name, std::move(sink)});
    return losses;
  }

  void replace(const std::string& index) {
    Result<void> replaced;
    {
      const nb::gil_scoped_release released;
      replaced = folder_->replace(std::move(files_), index);
      folder_.reset();  // and its lock
    }
    must(std::move(replaced), where_);
  }

 private:
  std::string where_;
  std::unique_ptr<SaveOptions> options_;
  std::optional<ModelFolder> folder_;
  std::vector<ModelFolder::NewFile> files_;
};

// A save in the background. Arrays were copied, or kept if they cannot change: their end takes the
// GIL, so nothing waits for a save with it.
class Saving {
 public:
  // Calls begin(options), whose copy of the arrays Ctrl-C ends.
  template <class Begin>
  Saving(SaveOptions options, std::string where, const StateCheck& check, const Begin& begin)
      : cancel_(std::make_unique<std::atomic<bool>>(false)),
        where_(std::move(where)),
        check_(check) {
    options.cancel = cancel_.get();
    check_.add_to(options);
    try {
      auto begun = run_interruptibly(
          nb::none(), *cancel_, [&](const Progress&, const std::atomic<bool>&) -> Result<void> {
            save_ = std::make_unique<AsyncSave>(begin(options));
            return {};
          });
      must(std::move(begun), where_);
    } catch (...) {  // It may have begun all the same, and its end takes a while.
      const nb::gil_scoped_release released;
      if (save_ != nullptr) save_->cancel();
      save_.reset();
      throw;
    }
  }
  Saving(Saving&&) noexcept = default;
  Saving& operator=(Saving&&) = delete;
  // Waits for the save, which may take minutes.
  ~Saving() {
    const NativeCode code;
    const nb::gil_scoped_release released;
    save_.reset();
  }

  bool is_done() const { return save_->is_done(); }
  void cancel() const { save_->cancel(); }
  std::pair<std::uint64_t, std::uint64_t> progress() const {
    const SaveProgress progress = save_->progress();
    return {progress.done, progress.total};
  }
  // The exception of a save that is done, or None.
  nb::object failure() const {
    const auto result = save_->wait();
    if (nb::object refusal = check_.refusal(); refusal.is_valid()) return refusal;
    return result ? nb::object(nb::none()) : exception_of(result.error(), where_);
  }
  // What the check of a save that is done has found.
  nb::list faults() const {
    static_cast<void>(save_->wait());
    return check_.faults();
  }

 private:
  // Before the save, which looks at it until it is done.
  std::unique_ptr<std::atomic<bool>> cancel_;
  std::unique_ptr<AsyncSave> save_;
  std::string where_;
  StateCheck check_;
};

Saving save_in_background(const nb::bytes& name, nb::handle state, nb::handle metadata,
                          int compression, bool sync, bool replace, unsigned threads,
                          bool copy_views, const std::string& check) {
  const std::string path = path_of(name);
  const StateCheck checking(check);
  Encoded encoded = encode(state, views_of(copy_views), Use::kBackground);
  return {options_of(encoded.with_attributes(metadata), compression, sync, replace, threads), path,
          checking, [&](const SaveOptions& options) {
            return save_async(path, std::move(encoded.value), Snapshot::kCopy, options);
          }};
}

class Folder {
 public:
  Folder(const nb::bytes& name, std::optional<std::size_t> last, std::uint64_t every,
         const std::optional<std::tuple<std::string, bool, std::size_t>>& best, bool incremental,
         bool patches, unsigned threads)
      : where_(path_of(name)),
        dir_(open(where_, last, every, best, incremental, threads)),
        patches_(patches) {}

  nb::list save(std::uint64_t step, nb::handle state, nb::handle metadata, int compression,
                bool sync, unsigned threads, bool copy_views, const std::string& check,
                const nb::object& progress) const {
    const StateCheck checking(check);
    const Encoded encoded = encode(state, views_of(copy_views));
    return save_interruptibly(
        progress, step_options(encoded.with_attributes(metadata), compression, sync, threads),
        where_, [&](const SaveOptions& options) { return dir_.save(step, encoded.value, options); },
        checking);
  }

  Saving save_async(std::uint64_t step, nb::handle state, nb::handle metadata, int compression,
                    bool sync, unsigned threads, bool copy_views, const std::string& check) const {
    const StateCheck checking(check);
    Encoded encoded = encode(state, views_of(copy_views), Use::kBackground);
    return {step_options(encoded.with_attributes(metadata), compression, sync, threads), where_,
            checking, [&](const SaveOptions& options) {
              return dir_.save_async(step, std::move(encoded.value), Snapshot::kCopy, options);
            }};
  }

  void lock() const { must(dir_.lock(), where_); }
  void unlock() const { dir_.unlock(); }

  void prune(std::uint64_t step) const {
    Result<void> pruned;
    {
      const nb::gil_scoped_release released;
      pruned = dir_.prune(step);
    }
    must(std::move(pruned), where_);
  }

  std::vector<std::uint64_t> steps() const { return must(dir_.steps(), where_); }

  nb::bytes path(std::uint64_t step) const {
    const std::string path = dir_.path(step).text();
    return nb::bytes(path.data(), path.size());
  }

  // The step, and (step, exception) for each later one that is not intact; None without any.
  nb::object latest(bool check, const nb::object& progress) const {
    std::optional<LatestCheckpoint> found;
    auto result = run_interruptibly(
        progress, [&](const Progress& tell, const std::atomic<bool>& cancel) -> Result<void> {
          auto latest = dir_.latest({.check = check ? Check::kHashes : Check::kNothing,
                                     .progress = tell,
                                     .cancel = &cancel});
          if (!latest) return propagate(latest);
          found = std::move(*latest);
          return {};
        });
    must(std::move(result), where_);
    if (!found) return nb::none();
    nb::list skipped;
    for (const SkippedStep& each : found->skipped) {
      skipped.append(
          nb::make_tuple(each.step, exception_of(each.error, dir_.path(each.step).text())));
    }
    return nb::make_tuple(found->step, skipped);
  }

  nb::list problems() const {
    nb::list problems;
    for (const Error& error : dir_.problems()) problems.append(exception_of(error, where_));
    return problems;
  }

 private:
  SaveOptions step_options(nb::handle metadata, int compression, bool sync,
                           unsigned threads) const {
    SaveOptions options = options_of(metadata, compression, sync, true, threads);
    options.patches = patches_;
    return options;
  }

  static CheckpointDir open(const std::string& path, std::optional<std::size_t> last,
                            std::uint64_t every,
                            const std::optional<std::tuple<std::string, bool, std::size_t>>& best,
                            bool incremental, unsigned threads) {
    CheckpointDirOptions options;
    options.incremental = incremental;
    options.open.threads = threads;
    options.keep.reset();
    if (last) {
      options.keep = Retention{.last = *last, .every = every};
      if (best) {
        const auto& [metric, is_greatest, count] = *best;
        options.keep->best = Best{.metric = metric,
                                  .order = is_greatest ? Best::Order::kMax : Best::Order::kMin,
                                  .count = count};
      }
    }
    return must(CheckpointDir::open(path, options), path);
  }

  std::string where_;
  CheckpointDir dir_;
  bool patches_;
};

}  // namespace

void bind_saving(nb::module_& module) {
  module.def("save", &save_file, "path"_a, "state"_a.none(), "metadata"_a, "compression"_a,
             "sync"_a, "replace"_a, "threads"_a, "copy_views"_a, "bases"_a, "patches"_a,
             "progress"_a.none(), "check"_a = "", nb::call_guard<Call>(),
             nb::sig("def save(path: bytes, state: object | None, metadata: object, compression: "
                     "int, sync: bool, replace: bool, threads: int, copy_views: bool, bases: "
                     "collections.abc.Sequence[bytes], patches: bool, progress: object | None, "
                     "check: str = '') -> list[tuple[str, str, str, str, str, int | None]]"));
  module.def("save_joined", &save_joined_file, "path"_a, "state"_a.none(), "metadata"_a,
             "compression"_a, "sync"_a, "threads"_a, "bases"_a, "tensors"_a,
             nb::call_guard<Call>());
  module.def("needed_files", &needed_files_of, "folder"_a, "leaving"_a, nb::call_guard<Call>());
  module.def("save_bytes", &save_bytes, "state"_a.none(), "metadata"_a, "compression"_a,
             "threads"_a, "copy_views"_a, nb::call_guard<Call>());
  module.def("save_async", &save_in_background, "path"_a, "state"_a.none(), "metadata"_a,
             "compression"_a, "sync"_a, "replace"_a, "threads"_a, "copy_views"_a, "check"_a = "",
             nb::call_guard<Call>());

  module.def("save_safetensors", &save_safetensors_file, "path"_a, "state"_a.none(), "metadata"_a,
             "unrepresentable"_a, "sync"_a, "replace"_a, "check_ending"_a, "threads"_a,
             "copy_views"_a, "progress"_a.none(), nb::call_guard<Call>(),
             nb::sig("def save_safetensors(path: bytes, state: object, metadata: object, "
                     "unrepresentable: str, sync: bool, replace: bool, check_ending: bool, "
                     "threads: int, copy_views: bool, progress: object | None) -> "
                     "tuple[int, list[tuple[str, str]]]"));
  module.def("save_safetensors_bytes", &save_safetensors_bytes, "state"_a.none(), "metadata"_a,
             "unrepresentable"_a, "threads"_a, "copy_views"_a, nb::call_guard<Call>());

  nb::class_<NewModel>(module, "NewModel")
      .def(nb::init<const nb::bytes&, const std::string&, const std::string&, bool, bool>(),
           "folder"_a, "single"_a, "index"_a, "sync"_a, "replace"_a, nb::call_guard<Call>())
      .def("add", &NewModel::add, "name"_a, "state"_a.none(), "metadata"_a, "unrepresentable"_a,
           "threads"_a, "copy_views"_a, "progress"_a.none(), nb::call_guard<Call>(),
           nb::sig("def add(self, name: str, state: object, metadata: object, "
                   "unrepresentable: str, threads: int, copy_views: bool, "
                   "progress: object | None) -> tuple[int, list[tuple[str, str]]]"))
      .def("replace", &NewModel::replace, "index"_a, nb::call_guard<Call>());

  nb::class_<Saving>(module, "Saving")
      .def("is_done", &Saving::is_done)
      .def("cancel", &Saving::cancel)
      .def("progress", &Saving::progress)
      .def("failure", &Saving::failure, nb::sig("def failure(self) -> Exception | None"))
      .def("faults", &Saving::faults,
           nb::sig("def faults(self) -> list[tuple[str, str, str, str, str, int | None]]"));

  nb::class_<Folder>(module, "Folder")
      .def(nb::init<const nb::bytes&, std::optional<std::size_t>, std::uint64_t,
                    const std::optional<std::tuple<std::string, bool, std::size_t>>&, bool, bool,
                    unsigned>(),
           "path"_a, "last"_a.none(), "every"_a, "best"_a.none(), "incremental"_a, "patches"_a,
           "threads"_a, nb::call_guard<Call>())
      .def("save", &Folder::save, "step"_a, "state"_a.none(), "metadata"_a, "compression"_a,
           "sync"_a, "threads"_a, "copy_views"_a, "check"_a, "progress"_a.none(),
           nb::call_guard<Call>(),
           nb::sig("def save(self, step: int, state: object | None, metadata: object, compression: "
                   "int, sync: bool, threads: int, copy_views: bool, check: str, progress: object "
                   "| None) -> list[tuple[str, str, str, str, str, int | None]]"))
      .def("save_async", &Folder::save_async, "step"_a, "state"_a.none(), "metadata"_a,
           "compression"_a, "sync"_a, "threads"_a, "copy_views"_a, "check"_a,
           nb::call_guard<Call>())
      .def("lock", &Folder::lock)
      .def("unlock", &Folder::unlock)
      .def("prune", &Folder::prune, "step"_a, nb::call_guard<Call>())
      .def("steps", &Folder::steps)
      .def("path", &Folder::path, "step"_a)
      .def("latest", &Folder::latest, "check"_a, "progress"_a = nb::none(), nb::call_guard<Call>(),
           nb::sig("def latest(self, check: bool, progress: collections.abc.Callable[[int, int], "
                   "object] "
                   "| None = None) -> "
                   "tuple[int, list[tuple[int, Exception]]] | None"))
      .def("problems", &Folder::problems, nb::sig("def problems(self) -> list[Exception]"));
}

}  // namespace espalier::python
