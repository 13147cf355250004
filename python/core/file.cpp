// espalier._core.File: reading.
#include "file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "decode.h"
#include "errors.h"
#include "interruptible.h"
#include "python_source.h"
#include "python_transfer.h"
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "espalier/checkpoint_file.h"
#include "espalier/codec/hash.h"
#include "espalier/format/all_notes.h"
#include "espalier/format/format_info.h"
#include "espalier/read/plan.h"
#include "espalier/read/resolve.h"
#include "espalier/walker.h"
#include "files/delta/apply.h"
#include "files/os/call_scope.h"
#include "http/http_checkpoint.h"
#include "http/http_source.h"

namespace espalier::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

nb::object text_or_none(const std::optional<std::string_view>& text) {
  if (!text) return nb::none();
  return nb::cast(std::string(*text));
}

nb::object key_object(KeyView key) {
  if (key.is_int) return nb::cast(key.integer);
  return nb::cast(std::string(key.text));
}

// A file, and numbers of nodes that came from it: each is checked, because Python can pass any.
class File {
 public:
  File(CheckpointFile file, std::string where) : file_(std::move(file)), where_(std::move(where)) {}

  static File open(const nb::bytes& name, bool mapped, bool nest, unsigned threads) {
    const std::string path = path_of(name);
    OpenFileOptions options{.access = mapped ? Access::kMapped : Access::kRead};
    options.threads = threads;
    options.nest = nest;
    auto file = [&] {
      const nb::gil_scoped_release released;
      return CheckpointFile::open(path, options);
    }();
    return File(must(std::move(file), path), path);
  }

  static File open_bytes(const nb::bytes& bytes, bool nest, unsigned threads) {
    OpenFileOptions options;
    options.threads = threads;
    options.nest = nest;
    const auto* begin = static_cast<const std::byte*>(bytes.data());
    std::vector<std::byte> copy(begin, begin + bytes.size());
    return File(must(CheckpointFile::open(std::move(copy), options)), "");
  }

  // Of an object that reads: see make_python_source(). `sibling` makes one of the name of a further
  // file, or gives None if there is none.
  static File open_source(nb::object reader, const nb::object& sibling, const std::string& name,
                          const std::string& where, bool nest, unsigned threads) {
    OpenFileOptions options;
    options.threads = threads;
    options.nest = nest;
    options.name = name;
    // They mostly wait for the network.
    options.sibling_threads = 8;
    // By reference, because copies of the function come and go without the GIL.
    options.sibling = [&sibling](const std::string& wanted) {
      return open_sibling(sibling, wanted);
    };
    auto source = make_python_source(std::move(reader));
    auto file = [&] {
      const nb::gil_scoped_release released;
      return CheckpointFile::open(std::move(source), options);
    }();
    return File(must(std::move(file), where), where);
  }

  // Of an http or https URL. Headers are (name, value), and a timeout of 0 is the usual one.
  static File open_url(const std::string& url,
                       const std::vector<std::pair<std::string, nb::bytes>>& headers,
                       unsigned timeout, const std::string& where, bool nest, unsigned threads) {
    OpenFileOptions options;
    options.threads = threads;
    options.nest = nest;
    auto http_options = must(http::HttpOptions::from_environment());
    // The head, and mostly the index with it. A larger one costs another request.
    http_options.head_bytes = std::uint64_t{64} << 10;
    http_options.is_cancelled = &CallScope::is_cancelled;
    if (timeout != 0) http_options.timeout = timeout;
    for (const auto& [name, value] : headers) {
      http_options.headers.push_back({name, std::string(value.c_str(), value.size())});
    }
    std::optional<CheckpointFile> opened;
    auto result = run_interruptibly(
        nb::none(), [&](const Progress&, const std::atomic<bool>&) -> Result<void> {
          const auto parsed = http::parse_url(url);
          if (!parsed) return propagate(parsed);
          auto source = http::open_url(*parsed, make_python_transfer, http_options);
          if (!source) return propagate(source);
          auto file = http::open_checkpoint(*parsed, std::move(*source), make_python_transfer,
                                            http_options, options);
          if (!file) return propagate(file);
          opened = std::move(*file);
          return {};
        });
    must(std::move(result), where);
    return File(std::move(*opened), where);
  }

  const CheckpointFile& checkpoint() const { return file_; }

  std::uint32_t state() const { return file_.state().number(); }
  std::uint32_t metadata() const { return file_.metadata().number(); }

  int kind(std::uint32_t node) const { return static_cast<int>(at(node).kind()); }
  nb::object label(std::uint32_t node) const { return text_or_none(at(node).label()); }
  std::uint32_t size(std::uint32_t node) const { return at(node).size(); }

  nb::list keys(std::uint32_t node) const { return first_keys(node, size(node)); }

  nb::list first_keys(std::uint32_t node, std::uint32_t count) const {
    const NodeRef parent = at(node);
    nb::list keys;
    const std::uint32_t end = std::min(parent.size(), count);
    for (std::uint32_t i = 0; i < end; ++i) keys.append(key_object(parent.key(i)));
    return keys;
  }

  std::vector<std::uint32_t> children(std::uint32_t node) const {
    const NodeRef parent = at(node);
    std::vector<std::uint32_t> children;
    for (std::uint32_t i = 0; i < parent.size(); ++i) children.push_back(parent.child(i).number());
    return children;
  }

  std::uint32_t child(std::uint32_t node, std::uint32_t i) const {
    const NodeRef parent = at(node);
    if (i >= parent.size()) throw nb::index_error("no such child");
    return parent.child(i).number();
  }

  std::optional<std::uint32_t> find_key(std::uint32_t node, const std::string& key) const {
    return number(at(node).find(KeyView::of(key)));
  }
  std::optional<std::uint32_t> find_int(std::uint32_t node, std::int64_t key) const {
    return number(at(node).find(KeyView::of(key)));
  }

  std::uint32_t at_path(std::uint32_t node, const std::string& path) const {
    const NodeRef root = at(node);
    return root.find(must(resolve_plainly(root, path), where_))->number();
  }
  std::string printed_path(std::uint32_t node, const std::string& path) const {
    const NodeRef root = at(node);
    return espalier::printed_path(root, must(resolve_plainly(root, path), where_));
  }

  std::vector<std::pair<std::string, std::uint32_t>> find(const std::string& pattern) const {
    std::vector<std::pair<std::string, std::uint32_t>> found;
    for (FoundNode& node : must(file_.find(pattern), where_)) {
      found.emplace_back(std::move(node.path), node.node.number());
    }
    return found;
  }

  // (number, dtype, shape, axis names, block or None, bytes, stored bytes, is placeholder, hash)
  nb::tuple tensor(std::uint32_t node) const {
    const TensorRef tensor = tensor_of(node);
    nb::object block = nb::none();
    if (tensor.dtype() == DType::kOpaque) block = block_of(tensor);
    nb::object hash = nb::none();
    if (const auto content = tensor.content_hash()) hash = nb::cast(to_hex(*content));
    return nb::make_tuple(tensor.number(), static_cast<int>(tensor.dtype()), shape_of(tensor),
                          axis_names_of(tensor), block, tensor.bytes(), tensor.stored_bytes(),
                          tensor.is_placeholder(), hash);
  }

  // What a template is compared with: (number, dtype, shape, axis names, is placeholder, label).
  // None if the node is no tensor.
  nb::object array(std::uint32_t node) const {
    const NodeRef found = at(node);
    const auto tensor = found.tensor();
    if (!tensor) return nb::none();
    return nb::make_tuple(tensor->number(), static_cast<int>(tensor->dtype()), shape_of(*tensor),
                          axis_names_of(*tensor), tensor->is_placeholder(),
                          text_or_none(found.label()));
  }

  // Several nodes at once.
  nb::list load_nodes(const std::vector<std::uint32_t>& nodes, bool check, bool exact,
                      const std::string& framework, const nb::object& progress) const {
    std::vector<NodeRef> roots;
    for (const std::uint32_t node : nodes) roots.push_back(at(node));
    const Value all = Value::list(load_values(roots, check, framework, progress));
    return nb::cast<nb::list>(decode_value(all, exact, framework));
  }

  nb::object load(std::uint32_t node, bool check, bool exact, const std::string& framework,
                  const nb::object& progress, const nb::object& convert) const {
    const NodeRef root = at(node);
    if (!is_container(root.kind()) && !root.tensor()) {
      return decode_value(must(file_.load(root), where_), exact, framework);
    }
    return decode_value(load_values({root}, check, framework, progress).front(), exact, framework,
                        convert);
  }

  // A slice for each of the first axes, as (start, stop, step) with None for what is left out.
  nb::object slice(std::uint32_t node,
                   const std::vector<std::tuple<std::optional<std::int64_t>,
                                                std::optional<std::int64_t>, std::int64_t>>& axes,
                   const std::string& framework) const {
    const TensorRef tensor = tensor_of(node);
    std::vector<Slice> slices;
    for (const auto& [start, stop, step] : axes) slices.push_back({start, stop, step});
    const TensorView sliced = read_slice(tensor, slices);
    const auto bytes = sliced.bytes();
    Arrays arrays(framework, std::nullopt, nullptr);
    const nb::object array = arrays.make(sliced.dtype, sliced.shape, {}, bytes, bytes.keeper());
    if (arrays.is_made_here(sliced.dtype, {})) return array;
    nb::object block = nb::none();
    if (sliced.dtype == DType::kOpaque) block = block_of(tensor);
    return nb::module_::import_("espalier._decode")
        .attr("decode_tensor")(nb::none(), static_cast<int>(sliced.dtype),
                               nb::tuple(nb::cast(sliced.shape)), nb::tuple(), block, array, false,
                               framework);
  }

  std::optional<std::string> digest() const {
    const auto& digest = file_.checkpoint().catalog().tree_digest();
    if (!digest) return std::nullopt;
    return to_hex(*digest);
  }

  std::string_view format() const { return file_.checkpoint().catalog().format().name; }

  // (number of notes, [(kind, path, message)])
  nb::tuple notes() const {
    const AllNotes notes = all_notes(file_.checkpoint().catalog());
    nb::list listed;
    for (const Note& note : notes.listed) {
      listed.append(nb::make_tuple(note_kind_name(note.kind), text(note.path, "backslashreplace"),
                                   text(note.message, "backslashreplace")));
    }
    return nb::make_tuple(notes.count, listed);
  }

  // (verdict, has hashes, chunks, bytes, checksums, unchecked bytes, names of missing files, number
  // of errors, exceptions: first of the missing files)
  nb::tuple verify(const nb::object& progress) const {
    std::optional<VerifyReport> report;
    auto result = run_interruptibly(
        progress, [&](const Progress& tell, const std::atomic<bool>& cancel) -> Result<void> {
          auto verified = file_.verify({.progress = tell, .cancel = &cancel});
          if (!verified) return propagate(verified);
          report = std::move(*verified);
          return {};
        });
    must(std::move(result), where_);
    nb::list errors;
    for (const Error& error : report->errors) errors.append(exception_of(error, where_));
    nb::list missing;
    for (std::size_t i = 0; i < report->missing_files; ++i) {
      missing.append(text(report->errors[i].file, "surrogateescape"));
    }
    return nb::make_tuple(verdict_name(report->verdict()), report->has_hashes, report->chunks,
                          report->bytes, report->checksums, report->unchecked, missing,
                          report->error_count, errors);
  }

  // An update of the tensors at `nodes`, whose memory is at these addresses. Who calls keeps it
  // alive.
  PreparedUpdate prepare_update(const std::vector<std::uint32_t>& nodes,
                                const std::vector<std::pair<std::uintptr_t, std::size_t>>& memory,
                                bool read_others, unsigned threads,
                                const nb::object& progress) const {
    if (nodes.size() != memory.size()) throw nb::value_error("not as much memory as nodes");
    std::vector<LiveTensor> live;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      auto* begin = reinterpret_cast<std::byte*>(memory[i].first);
      live.push_back({tensor_of(nodes[i]), MutableByteSpan(begin, memory[i].second)});
    }
    std::optional<PreparedUpdate> update;
    auto result = run_interruptibly(
        progress, [&](const Progress& tell, const std::atomic<bool>& cancel) -> Result<void> {
          auto prepared = PreparedUpdate::prepare(file_, live,
                                                  {.read_others = read_others,
                                                   .threads = threads,
                                                   .progress = tell,
                                                   .cancel = &cancel});
          if (!prepared) return propagate(prepared);
          update = std::move(*prepared);
          return {};
        });
    must(std::move(result), where_);
    return std::move(*update);
  }

 private:
  NodeRef at(std::uint32_t node) const {
    const Catalog& catalog = file_.checkpoint().catalog();
    if (node >= catalog.tables().nodes.size()) throw nb::index_error("no such node");
    return NodeRef(&catalog, node);
  }

  TensorRef tensor_of(std::uint32_t node) const {
    const auto tensor = at(node).tensor();
    if (!tensor) throw nb::type_error("not a tensor");
    return *tensor;
  }

  static nb::tuple shape_of(const TensorRef& tensor) {
    nb::list shape;
    for (const std::uint64_t length : tensor.shape()) shape.append(length);
    return nb::tuple(shape);
  }

  static nb::tuple axis_names_of(const TensorRef& tensor) {
    nb::list names;
    for (const std::string_view name : tensor.axis_names()) names.append(std::string(name));
    return nb::tuple(names);
  }

  static nb::object block_of(const TensorRef& tensor) {
    const BlockType type = tensor.block();
    return nb::make_tuple(std::string(type.name), type.elements, type.bytes);
  }

  static std::optional<std::uint32_t> number(const std::optional<NodeRef>& node) {
    if (!node) return std::nullopt;
    return node->number();
  }

  // Whether loading them is done before a signal has to be looked at: a thread takes longer to
  // start than to map a tensor. Python code may be behind a source that is not mapped, and disks
  // behind a mapped one as well, but for little.
  bool is_quick(const std::vector<NodeRef>& nodes, bool check) const {
    constexpr std::uint64_t kMost = std::uint64_t{4} << 20;  // bytes to hash or to decompress
    if (!file_.source().mapping()) return false;
    std::uint64_t bytes = 0;
    for (const NodeRef& node : nodes) {
      for (Walker walk(node); walk.next();) {
        const auto tensor = walk.node().tensor();
        if (!tensor) continue;
        if (check || tensor->stored_bytes() < tensor->bytes()) bytes += tensor->bytes();
        if (bytes > kMost) return false;
      }
    }
    return true;
  }

  std::vector<Value> load_values(const std::vector<NodeRef>& nodes, bool check,
                                 const std::string& framework, const nb::object& progress) const {
    const auto load = [&](const Progress& tell, const std::atomic<bool>* cancel) {
      const ReadOptions options{
          .check = check ? Check::kHashes : Check::kNothing, .progress = tell, .cancel = cancel};
      // torch has no read-only tensors.
      return framework == "torch" ? file_.load_writable(nodes, options)
                                  : file_.load(nodes, options);
    };
    if (progress.is_none() && is_quick(nodes, check)) {
      auto loaded = [&] {
        const nb::gil_scoped_release released;
        return load(nullptr, nullptr);
      }();
      return must(std::move(loaded), where_);
    }
    std::optional<std::vector<Value>> loaded;
    auto result = run_interruptibly(
        progress, [&](const Progress& tell, const std::atomic<bool>& cancel) -> Result<void> {
          auto values = load(tell, &cancel);
          if (!values) return propagate(values);
          loaded = std::move(*values);
          return {};
        });
    must(std::move(result), where_);
    return std::move(*loaded);
  }

  TensorView read_slice(const TensorRef& tensor, const std::vector<Slice>& slices) const {
    // A thread for a slice of a few chunks would take longer than reading it.
    constexpr std::size_t kFewChunks = 16;
    const auto plan = ReadPlan::make(tensor, slices);
    if (!file_.source().is_remote() && (!plan || plan->chunks().size() <= kFewChunks)) {
      auto view = [&] {
        const nb::gil_scoped_release released;
        return file_.slice(tensor, slices);
      }();
      return must(std::move(view), where_);
    }
    std::optional<TensorView> sliced;
    auto result = run_interruptibly(
        nb::none(), [&](const Progress&, const std::atomic<bool>& cancel) -> Result<void> {
          auto view = file_.slice(tensor, slices, {.cancel = &cancel});
          if (!view) return propagate(view);
          sliced = std::move(*view);
          return {};
        });
    must(std::move(result), where_);
    return std::move(*sliced);
  }

  static Result<std::shared_ptr<const Source>> open_sibling(const nb::object& sibling,
                                                            const std::string& name) {
    const nb::gil_scoped_acquire acquired;
    nb::object reader;
    try {
      reader = sibling(name);
    } catch (const nb::python_error& error) {
      // One file that cannot be read is no reason not to open the others.
      if (!error.matches(nb::module_::import_("espalier._errors").attr("CheckpointOSError"))) throw;
      return fail(ErrorCode::kIoError, nb::str(error.value()).c_str());
    }
    if (reader.is_none()) return fail(ErrorCode::kFileMissing, "no file of that name is there");
    return make_python_source(std::move(reader));
  }

  nb::object decode_value(const Value& value, bool exact, const std::string& framework,
                          const nb::object& convert = nb::none()) const {
    Arrays arrays(framework, file_.source().mapping(),
                  std::make_shared<const CheckpointFile>(file_));
    return decode(value, arrays, exact, convert);
  }

  CheckpointFile file_;
  std::string where_;
};

}  // namespace

const CheckpointFile& checkpoint_of(nb::handle file) {
  return nb::cast<const File&>(file).checkpoint();
}

nb::object make_file(CheckpointFile file, const std::string& where) {
  return nb::cast(File(std::move(file), where));
}

void bind_file(nb::module_& module) {
  nb::class_<PreparedUpdate>(module, "PreparedUpdate")
      .def("commit", &PreparedUpdate::commit, nb::call_guard<nb::gil_scoped_release>())
      // (chunks, unchanged, patched, read, bytes that change)
      .def_prop_ro("counts", [](const PreparedUpdate& update) {
        const auto& counts = update.counts();
        return std::make_tuple(counts.chunks, counts.unchanged, counts.patched, counts.read,
                               counts.changed_bytes);
      });

  nb::class_<File>(module, "File")
      .def_static("open", &File::open, "path"_a, "mapped"_a, "nest"_a, "threads"_a,
                  nb::call_guard<Call>())
      .def_static("open_bytes", &File::open_bytes, "data"_a, "nest"_a, "threads"_a,
                  nb::call_guard<Call>())
      .def_static("open_source", &File::open_source, "reader"_a, "sibling"_a, "name"_a, "where"_a,
                  "nest"_a, "threads"_a, nb::call_guard<Call>())
      .def_static("open_url", &File::open_url, "url"_a, "headers"_a, "timeout"_a, "where"_a,
                  "nest"_a, "threads"_a, nb::call_guard<Call>())
      .def_prop_ro("state", &File::state)
      .def_prop_ro("metadata", &File::metadata)
      .def("kind", &File::kind, "node"_a)
      .def("label", &File::label, "node"_a, nb::sig("def label(self, node: int) -> str | None"))
      .def("size", &File::size, "node"_a)
      .def("keys", &File::keys, "node"_a, nb::sig("def keys(self, node: int) -> list[str | int]"))
      .def("first_keys", &File::first_keys, "node"_a, "count"_a,
           nb::sig("def first_keys(self, node: int, count: int) -> list[str | int]"))
      .def("children", &File::children, "node"_a)
      .def("child", &File::child, "node"_a, "index"_a)
      .def("find_key", &File::find_key, "node"_a, "key"_a)
      .def("find_int", &File::find_int, "node"_a, "key"_a)
      .def("at", &File::at_path, "node"_a, "path"_a)
      .def("printed_path", &File::printed_path, "node"_a, "path"_a)
      .def("find", &File::find, "pattern"_a)
      .def("tensor", &File::tensor, "node"_a,
           nb::sig("def tensor(self, node: int) -> tuple[int, int, tuple[int, ...], "
                   "tuple[str, ...], tuple[str, int, int] | None, int, int, bool, str | None]"))
      .def("array", &File::array, "node"_a,
           nb::sig("def array(self, node: int) -> tuple[int, int, tuple[int, ...], "
                   "tuple[str, ...], bool, str | None] | None"))
      .def("load", &File::load, "node"_a, "check"_a, "exact"_a, "framework"_a = "numpy",
           "progress"_a = nb::none(), "convert"_a = nb::none(), nb::call_guard<Call>(),
           nb::sig("def load(self, node: int, check: bool, exact: bool, framework: str = "
                   "'numpy', progress: collections.abc.Callable[[int, int], object] | None = None, "
                   "convert: collections.abc.Callable[[typing.Any], typing.Any] | None = None) -> "
                   "typing.Any"))
      .def(
          "load_nodes", &File::load_nodes, "nodes"_a, "check"_a, "exact"_a, "framework"_a = "numpy",
          "progress"_a = nb::none(), nb::call_guard<Call>(),
          nb::sig("def load_nodes(self, nodes: collections.abc.Sequence[int], check: bool, "
                  "exact: bool, framework: str = 'numpy', progress: collections.abc.Callable[[int, "
                  "int], object] | None = None) -> list[typing.Any]"))
      .def("slice", &File::slice, "node"_a, "axes"_a, "framework"_a = "numpy",
           nb::call_guard<Call>(),
           nb::sig("def slice(self, node: int, axes: collections.abc.Sequence[tuple[int | None, "
                   "int | None, int]], framework: str = 'numpy') -> typing.Any"))
      .def_prop_ro("digest", &File::digest)
      .def_prop_ro("format", &File::format)
      .def("notes", &File::notes,
           nb::sig("def notes(self) -> tuple[int, list[tuple[Any, str, str]]]"))
      .def("prepare_update", &File::prepare_update, "nodes"_a, "memory"_a, "read_others"_a,
           "threads"_a, "progress"_a.none(), nb::call_guard<Call>())
      .def(
          "verify", &File::verify, "progress"_a.none(), nb::call_guard<Call>(),
          nb::sig(
              "def verify(self, progress: collections.abc.Callable[[int, int], object] "
              "| None) -> tuple[str, bool, int, int, int, int, list[str], int, list[typing.Any]]"));
}

}  // namespace espalier::python
