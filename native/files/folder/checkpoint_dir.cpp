#include "espalier/checkpoint_dir.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "espalier/base/counted.h"
#include "espalier/file_sink.h"
#include "espalier/format/file_set.h"
#include "espalier/format/header.h"
#include "espalier/source.h"
#include "files/delta/open_base.h"
#include "files/folder/needed_files.h"
#include "files/os/about_file.h"
#include "files/os/file_ops.h"
#include "files/os/folder_files.h"
#include "files/os/folder_lock.h"
#include "files/os/out_of_memory.h"
#include "files/os/posix.h"
#include "files/os/saver_lock.h"
#include "files/save/async_targets.h"
#include "files/save/start_async.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_";
constexpr std::string_view kSuffix = ".espalier";
constexpr std::size_t kDigits = 8;
constexpr char kStepKey[] = "step";
constexpr auto kMaxStep = static_cast<std::uint64_t>(INT64_MAX);  // of an int in the metadata

std::string file_name(std::uint64_t step) {
  const std::string digits = std::to_string(step);
  std::string name(kPrefix);
  if (digits.size() < kDigits) name.append(kDigits - digits.size(), '0');
  return name.append(digits).append(kSuffix);
}

// The step whose file has this name.
std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  if (name.size() < kPrefix.size() + kDigits + kSuffix.size()) return std::nullopt;
  const std::string_view digits =
      name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  std::uint64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (step > kMaxStep) return std::nullopt;
  // One name for each step: not "step_000000001".
  if (file_name(step) != name) return std::nullopt;
  return step;
}

Result<std::vector<std::uint64_t>> steps_in(const fs::path& folder) {
  const auto names = list_folder(folder);
  if (!names) return propagate(names);
  std::vector<std::uint64_t> steps;
  for (const std::string& name : *names) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

Result<void> sync_folder(const fs::path& folder) {
  const FileDescriptor open(
      uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  // As after a save: some file systems cannot sync folders, and some folders cannot be read.
  if (!open.is_open() || ::fsync(open.get()) == 0 || errno == EINVAL || errno == ENOTSUP) return {};
  return fail_with_errno(errno, "flush the new folder's name to the disk");
}

// The stat() of a path: 0 or the errno.
int examine(const std::string& path, struct stat& status) {
  return ::stat(path.c_str(), &status) == 0 ? 0 : errno;
}

// Makes the folder and those above it, and brings their names to the disk. Works on one string, as
// a path from outside may have thousands of levels. `folder` is absolute.
Result<void> make_folder(const fs::path& folder) {
  const std::string& path = folder.native();
  struct stat status = {};
  std::size_t end = path.size();  // of the part that exists
  for (;;) {
    const int error = examine(path.substr(0, end), status);
    if (error == 0) break;
    // Before anything is made, this is also what the system says of a path that is too long.
    if ((error != ENOENT && error != ENOTDIR) || end <= 1) {
      return fail_with_errno(error, "make the folder " + path);
    }
    end = std::max<std::size_t>(path.rfind('/', end - 1), 1);
  }
  if (!S_ISDIR(status.st_mode)) {
    return fail(ErrorCode::kInvalidArgument,
                path.substr(0, end) + " is not a folder; choose another path");
  }
  while (end < path.size()) {
    const std::string parent = path.substr(0, end);
    end = std::min(path.find('/', end + 1), path.size());
    const std::string made = path.substr(0, end);
    if (::mkdir(made.c_str(), 0777) != 0) {
      const int error = errno;
      // Another process may have been faster.
      const bool is_there = examine(made, status) == 0 && S_ISDIR(status.st_mode);
      if (!is_there) return fail_with_errno(error, "make the folder " + made);
    }
    if (auto ok = sync_folder(parent); !ok) return ok;
  }
  return {};
}

Result<void> check_rules(const CheckpointDirOptions& options) {
  if (!options.keep) return {};
  if (options.keep->last == 0) {
    return fail(
        ErrorCode::kInvalidArgument,
        "Retention::last is 0, so nothing would be left; keep at least the last checkpoint");
  }
  if (!options.keep->best) return {};
  if (auto path = KeyPath::parse(options.keep->best->metric); !path) return propagate(path);
  return {};
}

// The number at a path of the metadata.
std::optional<double> metric_of(const CheckpointFile& file, const std::string& path) {
  const auto keys = KeyPath::parse(path);
  const auto node = keys ? file.metadata().find(*keys) : std::nullopt;
  if (!node) return std::nullopt;
  if (const auto integer = node->as_int64()) return static_cast<double>(*integer);
  const auto real = node->as_double();
  return real && !std::isnan(*real) ? real : std::nullopt;
}

// That a CheckpointDir saved the file as that step. A copy under the name of a later step would win
// over all later work, and a file without hashes would be intact whatever its bytes.
Result<void> check_own(const CheckpointFile& file, std::uint64_t step) {
  if (!file.checkpoint().catalog().has_hashes()) {
    return fail(ErrorCode::kNotACheckpoint,
                "the file's format has no hashes, so nothing tells whether it is intact; open it "
                "with CheckpointFile::open()");
  }
  const auto node = file.metadata().find(KeyView::of(std::string_view(kStepKey)));
  const auto said = node ? node->as_int64() : std::nullopt;
  if (said == static_cast<std::int64_t>(step)) return {};
  return fail(ErrorCode::kInvalidArgument,
              said ? "the metadata say step " + std::to_string(*said) +
                         ", so this is another step's file; give it the name of its step"
                   : "the metadata do not say the step, so no CheckpointDir saved this file; open "
                     "it with CheckpointFile::open()",
              Error::kNoOffset, kStepKey);
}

// Opens the file of a step and, with kHashes, checks every byte.
Result<CheckpointFile> open_intact(const fs::path& path, std::uint64_t step,
                                   const OpenFileOptions& options, const ReadOptions& reading) {
  auto file = CheckpointFile::open(path, options);
  if (!file) return file;
  if (auto ok = check_own(*file, step); !ok) return propagate(ok);
  if (reading.check == Check::kNothing) return file;
  auto report = file->verify(reading);
  if (!report) return propagate(report);
  if (report->error_count > 0) return tl::unexpected<Error>(std::move(report->errors.front()));
  return file;
}

}  // namespace

struct CheckpointDir::Folder {
  fs::path path;
  CheckpointDirOptions options;
  std::mutex mutex;
  std::vector<Error> problems;

  // What the rules ask about a file that was opened once.
  struct Known {
    fs::file_time_type written;
    bool is_own = false;
    std::optional<double> metric = {};
  };
  std::map<std::uint64_t, Known> known;  // by step

  std::shared_ptr<const SaverLock> saver_lock;  // null until the first save

  // The right to save, which is taken if this process does not have it.
  Result<std::shared_ptr<const SaverLock>> take_saver_lock();
  // Removes what the rules do not keep after `saved` was saved.
  void rotate(std::uint64_t saved);
  Result<void> try_rotate(std::uint64_t saved, std::vector<Error>& found);
  std::set<std::uint64_t> to_keep(const std::vector<std::uint64_t>& steps, const Retention& rules,
                                  std::vector<Error>& found);
  // nullopt if it is not a file of this folder's: see check_own().
  Result<std::optional<CheckpointFile>> open_own(std::uint64_t step) const;
  Result<Known> look_at(std::uint64_t step);
  Result<void> remove(std::uint64_t step);
  Result<void> keep_needed(const std::vector<std::uint64_t>& steps,
                           std::set<std::uint64_t>& kept) const;
  Result<void> check_references(std::uint64_t step, std::span<const SaveBase> bases) const;
};

Result<std::shared_ptr<const SaverLock>> CheckpointDir::Folder::take_saver_lock() {
  const std::lock_guard guard(mutex);
  if (saver_lock == nullptr || !saver_lock->holds(path)) {
    auto taken = SaverLock::take(path);
    if (!taken) {
      name_file(taken.error(), path.native());
      return taken;
    }
    saver_lock = std::move(*taken);
  }
  return saver_lock;
}

Result<std::optional<CheckpointFile>> CheckpointDir::Folder::open_own(std::uint64_t step) const {
  const fs::path file_path = path / file_name(step);
  struct stat status = {};
  if (::lstat(file_path.c_str(), &status) != 0) {
    // Another process may have been faster.
    if (errno == ENOENT) return std::optional<CheckpointFile>();
    return fail_with_errno(errno, "examine a checkpoint");
  }
  if (!S_ISREG(status.st_mode)) return std::optional<CheckpointFile>();
  auto file = CheckpointFile::open(file_path, options.open);
  if (!file) return propagate(file);
  if (!check_own(*file, step)) return std::optional<CheckpointFile>();
  return std::optional(std::move(*file));
}

// Opens each file once, as long as it stays the same one.
Result<CheckpointDir::Folder::Known> CheckpointDir::Folder::look_at(std::uint64_t step) {
  const fs::path file_path = path / file_name(step);
  std::error_code unknown;
  // A link to the file, where that was moved, has the same time.
  const bool is_link = fs::is_symlink(file_path, unknown);
  const auto written = fs::last_write_time(file_path, unknown);
  const std::lock_guard guard(mutex);
  const auto found = known.find(step);
  if (!unknown && !is_link && found != known.end() && found->second.written == written) {
    return found->second;
  }
  const auto file = open_own(step);
  if (!file) return propagate(file);
  Known looked{.written = written, .is_own = file->has_value()};
  if (*file && options.keep->best) looked.metric = metric_of(**file, options.keep->best->metric);
  if (!unknown) known.insert_or_assign(step, looked);
  return looked;
}

std::set<std::uint64_t> CheckpointDir::Folder::to_keep(const std::vector<std::uint64_t>& steps,
                                                       const Retention& rules,
                                                       std::vector<Error>& found) {
  {
    const std::lock_guard guard(mutex);
    std::erase_if(known, [&](const auto& entry) {
      return !std::binary_search(steps.begin(), steps.end(), entry.first);
    });
  }
  std::set<std::uint64_t> kept;
  std::size_t own = 0;
  std::vector<std::pair<double, std::uint64_t>> ranked;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (rules.every != 0 && *step % rules.every == 0) kept.insert(*step);
    // Opening files takes time, so only where the answer matters.
    if (own >= rules.last && !rules.best) continue;
    auto file = look_at(*step);
    if (!file) {
      // It may be the best: what cannot be read now stays.
      kept.insert(*step);
      file.error().file = file_name(*step);
      found.push_back(std::move(file.error()));
      continue;
    }
    // Otherwise a few strangers' files of high steps would be the last, and all checkpoints go.
    if (!file->is_own) continue;
    if (own++ < rules.last) kept.insert(*step);
    if (!file->metric) continue;
    const double sign = rules.best->order == Best::Order::kMin ? 1 : -1;
    ranked.emplace_back(sign * *file->metric, *step);
  }
  if (rules.best && ranked.empty()) {
    // A misspelt metric would let the best checkpoints go in silence.
    found.push_back(
        {ErrorCode::kNotFound, Error::kNoOffset, rules.best->metric,
         "none of the checkpoints that open has this number in its metadata, so none is kept "
         "as the best; save it, or correct Best::metric"});
  }
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  const std::size_t best = rules.best ? std::min(rules.best->count, ranked.size()) : 0;
  for (std::size_t i = 0; i < best; ++i) kept.insert(ranked[i].second);
  return kept;
}

Result<void> CheckpointDir::Folder::remove(std::uint64_t step) {
  const auto file = open_own(step);
  if (!file) return propagate(file);
  if (!*file) return {};  // Somebody else put it there.
  if (::unlink((path / file_name(step)).c_str()) == 0 || errno == ENOENT) return {};
  return fail_with_errno(errno, "remove an old checkpoint");
}

Result<void> CheckpointDir::Folder::try_rotate(std::uint64_t saved, std::vector<Error>& found) {
  if (auto dead = remove_dead_temporary_files(path); !dead)
    found.push_back(std::move(dead.error()));
  if (!options.keep) return {};
  // While others put their files in place, they remove nothing, and rotate afterwards.
  const auto lock = FolderLock::try_exclusive(path);
  if (!lock) return propagate(lock);
  if (!*lock) return {};
  const auto steps = steps_in(path);
  if (!steps) return propagate(steps);
  // If another process has removed the new file by its rules, those that are left may be damaged.
  if (!std::binary_search(steps->begin(), steps->end(), saved)) return {};
  std::set<std::uint64_t> kept = to_keep(*steps, *options.keep, found);
  kept.insert(saved);
  if (auto ok = keep_needed(*steps, kept); !ok) return ok;
  for (const std::uint64_t step : *steps) {
    if (kept.count(step) != 0) continue;
    auto gone = remove(step);
    if (gone) continue;
    gone.error().file = file_name(step);
    found.push_back(std::move(gone.error()));
  }
  return {};
}

// Keeps also what files that stay refer to, and what those refer to.
Result<void> CheckpointDir::Folder::keep_needed(const std::vector<std::uint64_t>& steps,
                                                std::set<std::uint64_t>& kept) const {
  for (;;) {
    std::set<std::string> leaving;
    for (const std::uint64_t step : steps) {
      if (!kept.contains(step)) leaving.insert(file_name(step));
    }
    if (leaving.empty()) return {};
    const auto needed = needed_files(path, leaving);
    if (!needed) return propagate(needed);
    const std::size_t before = kept.size();
    for (const std::uint64_t step : steps) {
      if (needed->contains(file_name(step))) kept.insert(step);
    }
    if (kept.size() == before) return {};
  }
}

namespace {

// Whether the file at `path` begins like file `number` of `source`, which was opened before: an
// Espalier file's header seals all the rest.
bool is_still_there(const fs::path& path, const Source& source, std::uint32_t number,
                    std::uint64_t length) {
  const auto now = open_source(path, Access::kRead);
  if (!now || (*now)->size() != length) return false;
  std::array<std::byte, kHeaderBytes> before;
  std::array<std::byte, kHeaderBytes> after;
  const auto front = static_cast<std::size_t>(std::min<std::uint64_t>(length, kHeaderBytes));
  return source.copy({number, 0, front}, MutableByteSpan(before).first(front)) &&
         (*now)->copy({0, 0, front}, MutableByteSpan(after).first(front)) &&
         std::memcmp(before.data(), after.data(), front) == 0;
}

}  // namespace

// Another process may have removed a base since it was opened, and a file that replaces one to
// which others refer would break them. The caller holds the folder's lock.
Result<void> CheckpointDir::Folder::check_references(std::uint64_t step,
                                                     std::span<const SaveBase> bases) const {
  for (const SaveBase& base : bases) {
    for (const FileEntry& file : base.file->checkpoint().catalog().files()) {
      if (file.problem || file.maker) continue;
      const std::string& name = file.name.empty() ? base.name : file.name;
      const auto number =
          static_cast<std::uint32_t>(&file - base.file->checkpoint().catalog().files().data());
      if (is_still_there(path / name, base.file->source(), number, file.length)) continue;
      Error gone{
          ErrorCode::kFileMissing,
          Error::kNoOffset,
          {},
          "this file, to which the new checkpoint refers, was removed or replaced during the "
          "save; save again"};
      gone.file = name;
      return tl::unexpected<Error>(std::move(gone));
    }
  }
  std::error_code error;
  if (!fs::exists(path / file_name(step), error)) return {};
  const auto needed = needed_files(path, {file_name(step)});
  if (!needed) return propagate(needed);
  if (!needed->contains(file_name(step))) return {};
  return fail(ErrorCode::kFileExists,
              "another checkpoint of the folder refers to the file of this step, which would be "
              "replaced; remove that checkpoint first (`espalier needs` tells which), or save "
              "another step");
}

void CheckpointDir::Folder::rotate(std::uint64_t saved) {
  // The checkpoint is saved: nothing here makes that an error.
  std::vector<Error> found;
  try {
    auto rotated = try_rotate(saved, found);
    if (!rotated) found.push_back(std::move(rotated.error()));
  } catch (const std::bad_alloc&) {
    return;  // The next save tries again.
  }
  const std::lock_guard guard(mutex);
  problems = std::move(found);
}

// A file of the folder that removes old ones once it is in place.
class CheckpointDir::RotatingSink : public Sink {
 public:
  /// `lock` is held, and `base` kept open, until the save is over.
  RotatingSink(std::shared_ptr<const SaverLock> lock, FileSink file, std::shared_ptr<Folder> folder,
               std::uint64_t step, std::vector<SaveBase> bases,
               std::shared_ptr<const OpenBase> base)
      : lock_(std::move(lock)),
        file_(std::move(file)),
        folder_(std::move(folder)),
        step_(step),
        bases_(std::move(bases)),
        base_(std::move(base)) {}

  const SaveTarget& target() const { return file_.target(); }

  Result<void> reserve(std::uint64_t length) override { return file_.reserve(length); }
  Result<void> write(std::uint64_t offset, ByteSpan bytes) override {
    return file_.write(offset, bytes);
  }
  Result<void> commit() override {
    {
      // Otherwise a process that is about to remove an old file of this step would remove this one.
      const auto lock = FolderLock::share(folder_->path);
      if (!lock) return propagate(lock);
      if (auto ok = folder_->check_references(step_, bases_); !ok) return ok;
      if (auto ok = file_.commit(); !ok) return ok;
    }
    folder_->rotate(step_);
    return {};
  }

 private:
  std::shared_ptr<const SaverLock> lock_;
  FileSink file_;
  std::shared_ptr<Folder> folder_;
  std::uint64_t step_;
  std::vector<SaveBase> bases_;
  std::shared_ptr<const OpenBase> base_;
};

Result<CheckpointDir> CheckpointDir::open(const FilePath& path,
                                          const CheckpointDirOptions& options) {
  return about_file(path.text(), [&]() -> Result<CheckpointDir> {
    if (auto ok = check_rules(options); !ok) return propagate(ok);
    const fs::path requested = path;
    if (auto ok = check_no_nul(requested); !ok) return propagate(ok);
    if (requested.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  "the folder's path is empty; the current folder is \".\"");
    }
    std::error_code error;
    // The program may change its current folder.
    const fs::path folder = fs::absolute(requested, error);
    if (error) return fail_with_errno(error.value(), "find the folder " + requested.string());
    if (auto ok = make_folder(folder); !ok) return propagate(ok);
    auto state = std::make_shared<Folder>();
    state->path = folder;
    state->options = options;
    if (auto dead = remove_dead_temporary_files(folder); !dead) {
      state->problems.push_back(std::move(dead.error()));
    }
    return CheckpointDir(std::move(state));
  });
}

FilePath CheckpointDir::path(std::uint64_t step) const { return folder_->path / file_name(step); }

Result<SaveOptions> CheckpointDir::with_step(std::uint64_t step, const SaveOptions& options) const {
  if (step > kMaxStep) {
    return fail(ErrorCode::kInvalidArgument, "a step is at most 2^63 - 1");
  }
  SaveOptions marked = options;
  // The files that it would take tensors over from, perhaps damaged, may be removed afterwards.
  marked.carry = false;
  const Value number = Value::integer(static_cast<std::int64_t>(step));
  const Value* stated = marked.metadata.find(Key(kStepKey));
  if (stated != nullptr && stated->as_int64() != number.as_int64()) {
    return fail(ErrorCode::kInvalidArgument,
                "the metadata have another value under the key \"step\", where the step is kept; "
                "choose another key",
                Error::kNoOffset, kStepKey);
  }
  if (stated == nullptr) marked.metadata.add(Key(kStepKey), number);
  return marked;
}

// The newest checkpoint of another step that opens; null if there is none.
std::shared_ptr<const OpenBase> CheckpointDir::find_base(std::uint64_t step) const {
  const auto steps = steps_in(folder_->path);
  if (!steps) return nullptr;
  for (auto each = steps->rbegin(); each != steps->rend(); ++each) {
    if (*each == step) continue;
    auto file = folder_->open_own(*each);
    if (file && *file) {
      return std::make_shared<const OpenBase>(OpenBase{std::move(**file), file_name(*each)});
    }
  }
  return nullptr;
}

Result<std::unique_ptr<CheckpointDir::RotatingSink>> CheckpointDir::begin(
    std::uint64_t step, SaveOptions& options) const {
  auto lock = folder_->take_saver_lock();
  if (!lock) return propagate(lock);
  std::shared_ptr<const OpenBase> base;
  if (folder_->options.incremental && options.bases.empty()) {
    base = find_base(step);
    if (base) options.bases.push_back(base->as_base());
  }
  // Behind a link that somebody planted, the file would not have the step's name.
  auto file = FileSink::create(path(step), {.sync = options.sync,
                                            .replace = options.replace,
                                            .follow_links = false,
                                            .ops = options.ops});
  if (!file && file.error().code == ErrorCode::kNotARegularFile) {
    file.error().message =
        "what stands at the checkpoint's name is not a regular file (a symbolic link is none "
        "either); move it away or save another step";
  }
  if (!file) return propagate(file);
  return std::make_unique<RotatingSink>(std::move(*lock), std::move(*file), folder_, step,
                                        options.bases, std::move(base));
}

Result<void> CheckpointDir::save(std::uint64_t step, const Value& state,
                                 const SaveOptions& options) const {
  return about_file(path(step).text(), [&]() -> Result<void> {
    auto marked = with_step(step, options);
    if (!marked) return propagate(marked);
    auto sink = begin(step, *marked);
    if (!sink) return propagate(sink);
    if (auto ok = wait_for_async_saves((*sink)->target(), ops_or_system(options.ops)); !ok) {
      return ok;
    }
    return espalier::save(**sink, state, *marked);
  });
}

AsyncSave CheckpointDir::save_async(std::uint64_t step, Value state, Snapshot snapshot,
                                    const SaveOptions& options) const try {
  const std::string file = path(step).text();
  auto marked = with_step(step, options);
  if (!marked) return failed_async(marked.error(), file);
  auto sink = begin(step, *marked);
  if (!sink) return failed_async(std::move(sink.error()), file);
  auto place = TargetPlace::take((*sink)->target(), ops_or_system(options.ops));
  if (!place) return failed_async(std::move(place.error()), file);
  return start_async(std::move(*sink), std::move(*place), std::move(state), snapshot, *marked,
                     file);
} catch (const std::bad_alloc&) {
  return failed_async(out_of_memory().value(), {});
}

Result<void> CheckpointDir::lock() const try {
  if (auto ok = folder_->take_saver_lock(); !ok) return propagate(ok);
  return {};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

void CheckpointDir::unlock() const {
  const std::lock_guard guard(folder_->mutex);
  folder_->saver_lock.reset();
}

Result<void> CheckpointDir::prune(std::uint64_t step) const try {
  const auto lock = folder_->take_saver_lock();
  if (!lock) return propagate(lock);
  folder_->rotate(step);
  return {};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<std::vector<std::uint64_t>> CheckpointDir::steps() const {
  return about_file(folder_->path.native(), [&] { return steps_in(folder_->path); });
}

Result<std::optional<LatestCheckpoint>> CheckpointDir::latest(const ReadOptions& options) const
    try {
  auto steps = steps_in(folder_->path);
  if (!steps) return propagate(steps);
  std::vector<SkippedStep> skipped;
  while (!steps->empty()) {
    const std::uint64_t step = steps->back();
    auto file = open_intact(path(step), step, folder_->options.open, options);
    if (file) return LatestCheckpoint{step, std::move(*file), std::move(skipped)};
    Error& problem = file.error();
    // These say nothing about the checkpoint.
    if (problem.code == ErrorCode::kOutOfMemory || problem.code == ErrorCode::kCancelled) {
      return propagate(file);
    }
    if (problem.code == ErrorCode::kFileNotFound) {
      // Another process has removed it, but only after it had saved another one: look again.
      auto again = steps_in(folder_->path);
      if (!again) return propagate(again);
      if (!std::binary_search(again->begin(), again->end(), step)) {
        steps = std::move(again);
        skipped.clear();
        continue;
      }
    }
    if (problem.file.empty()) problem.file = file_name(step);
    skipped.push_back({step, std::move(problem)});
    steps->pop_back();
  }
  if (skipped.empty()) return std::optional<LatestCheckpoint>();
  Error none = std::move(skipped.front().error);
  none.message = "none of the folder's checkpoints is intact (" + counted(skipped.size(), "file") +
                 "); the latest: " + none.message;
  return tl::unexpected<Error>(std::move(none));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

std::vector<Error> CheckpointDir::problems() const {
  const std::lock_guard guard(folder_->mutex);
  return folder_->problems;
}

}  // namespace espalier
