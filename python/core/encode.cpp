#include "encode.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "errors.h"
#include "kept_object.h"
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "espalier/base/checked.h"
#include "espalier/bigint.h"
#include "espalier/dtype.h"
#include "espalier/key_path.h"
#include "espalier/kind.h"
#include "espalier/limits.h"

namespace espalier::python {

namespace nb = nanobind;

namespace {

// A container whose children are being encoded.
struct Frame {
  const PyObject* object = nullptr;  // that Python has, for cycles; null for one that was made
  Kind kind = Kind::kNull;
  std::optional<std::string> label;
  // A list of the children, or of the values; nobody else changes it.
  nb::object children;
  nb::object keys;  // a list, for dicts and records
  Py_ssize_t next = 0;
  std::vector<Key> done_keys;
  std::vector<Value> done;
};

std::string_view text_of(nb::handle object) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &length);
  if (text == nullptr) throw nb::python_error();
  return {text, static_cast<std::size_t>(length)};
}

nb::object list_of(const nb::object& iterable) {
  PyObject* const list = PySequence_List(iterable.ptr());
  if (list == nullptr) throw nb::python_error();
  return nb::steal(list);
}

// The path to the first node with this tensor. Trees are at most Limits::depth deep here.
bool find_tensor(const Value& value, const Tensor* tensor, KeyPath& path) {
  if (value.as_tensor().get() == tensor) return true;
  const auto children = value.children();
  const auto keys = value.keys();
  for (std::size_t i = 0; i < children.size(); ++i) {
    path.push_back(keys.empty() ? Key(static_cast<std::int64_t>(i)) : keys[i]);
    if (find_tensor(children[i], tensor, path)) return true;
    path.pop_back();
  }
  return false;
}

std::string path_of(const Value& root, const Tensor* tensor) {
  KeyPath path;
  find_tensor(root, tensor, path);
  return path.to_string();
}

// PyArrayInterface of numpy's array interface, version 3.
struct ArrayInterface {
  int two;
  int axes;
  char type_kind;
  int item_bytes;
  int flags;
  Py_intptr_t* shape;
  Py_intptr_t* strides;
  void* data;
  PyObject* description;
};

// Names of attributes, made once: thousands of arrays are asked for them.
struct Names {
  static nb::object name(const char* text) { return nb::steal(PyUnicode_InternFromString(text)); }

  nb::object array_struct = name("__array_struct__");
  nb::object data_ptr = name("data_ptr");
  nb::object dtype = name("dtype");
  nb::object is_contiguous = name("is_contiguous");
  nb::object is_cpu = name("is_cpu");
  nb::object is_neg = name("is_neg");
  nb::object is_nested = name("is_nested");
  nb::object layout = name("layout");
  nb::object nbytes = name("nbytes");
  nb::object requires_grad = name("requires_grad");
  nb::object shape = name("shape");
  nb::object untyped_storage = name("untyped_storage");
};

// Where the bytes of an array lie that espalier/_encode.py gives (_tree.TensorParts).
ByteSpan bytes_of(const nb::object& parts) {
  const nb::object data = parts.attr("data");
  nb::object place = parts.attr("address");
  auto length = nb::cast<std::uint64_t>(parts.attr("nbytes"));
  if (place.is_none()) {
    const nb::dict interface = nb::cast<nb::dict>(data.attr("__array_interface__"));
    place = nb::cast<nb::tuple>(interface["data"])[0];
    length = nb::cast<std::uint64_t>(data.attr("nbytes"));
  }
  return {reinterpret_cast<const std::byte*>(nb::cast<std::uintptr_t>(place)),
          static_cast<std::size_t>(length)};
}

// An array that must be copied to be read: see Use::kOneByOne.
class CopiedArray {
 public:
  CopiedArray(nb::object encode_other, nb::object array, std::uint64_t size,
              std::shared_ptr<Raised> raised)
      : encode_other_(std::move(encode_other)),
        array_(std::move(array)),
        size_(size),
        raised_(std::move(raised)) {}

  Result<void> read(std::uint64_t offset, MutableByteSpan out) try {
    const nb::gil_scoped_acquire acquired;
    try {
      if (copy_ == nullptr) {
        const nb::tuple made = nb::cast<nb::tuple>(encode_other_.get()(array_.get()));
        bytes_ = bytes_of(made[2]);
        copy_ = std::make_unique<const KeptObject>(made[2].attr("data"));
      }
    } catch (nb::python_error& error) {
      raised_->keep(std::move(error));
      return fail(ErrorCode::kIoError, "an array cannot be copied");
    }
    if (bytes_.size() != size_ || !range_fits(offset, out.size(), bytes_.size())) {
      return fail(ErrorCode::kIoError, "an array has another size than before; examine it again");
    }
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    if (offset + out.size() == size_) copy_.reset();
    return {};
  } catch (const std::bad_cast&) {
    return fail(ErrorCode::kIoError, "an array is encoded in another way than before");
  }

 private:
  KeptObject encode_other_;
  KeptObject array_;
  std::uint64_t size_;
  std::shared_ptr<Raised> raised_;
  std::unique_ptr<const KeptObject> copy_;
  ByteSpan bytes_;
};

class Encoder {
 public:
  Encoder(Views views, Use use)
      : views_(views),
        use_(use),
        encoder_(nb::module_::import_("espalier._encode")),
        encode_other_(encoder_.attr("encode_other")) {
    // Where a module was not imported, no object is an array of it.
    const nb::dict modules = nb::cast<nb::dict>(nb::module_::import_("sys").attr("modules"));
    if (modules.contains("numpy")) {
      ndarray_ = nb::module_::import_("numpy").attr("ndarray");
      by_dtype_ = nb::cast<nb::dict>(nb::module_::import_("espalier._dtypes").attr("by_dtype")());
    }
    if (modules.contains("torch")) {
      const nb::module_ torch = nb::module_::import_("torch");
      torch_tensor_ = torch.attr("Tensor");
      torch_strided_ = torch.attr("strided");
      torch_by_dtype_ =
          nb::cast<nb::dict>(nb::module_::import_("espalier._torch").attr("plain_dtypes")());
    }
  }

  Encoded encode(nb::handle root) {
    std::optional<Value> value = begin(root);
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (value) frame.done.push_back(*std::exchange(value, std::nullopt));
      if (frame.next == PyList_Size(frame.children.ptr())) {
        value = end();
        continue;
      }
      const auto i = frame.next++;
      if (frame.keys.is_valid()) add_key(frame, PyList_GetItem(frame.keys.ptr(), i));
      value = begin(PyList_GetItem(frame.children.ptr(), i));  // may add a frame
    }
    check_views(*value);
    if (has_run_code_) check_memory(*value);
    keep_constants();
    return {std::move(*value), std::move(kept_), std::move(attributes_), std::move(raised_)};
  }

 private:
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    const Tensor* tensor;
  };

  // A tensor whose memory cannot change, and the object that keeps it.
  struct Constant {
    std::shared_ptr<Tensor> tensor;
    nb::object object;
  };

  // The value of an object without children; nothing after a new frame.
  std::optional<Value> begin(nb::handle object) {
    PyObject* const o = object.ptr();
    const PyTypeObject* const type = Py_TYPE(o);
    // Exact types alone: what a subclass adds would be lost.
    if (type == &PyUnicode_Type) return string(object);
    if (ndarray_.is_valid() && object.type().ptr() == ndarray_.ptr()) {
      if (auto tensor = array(object)) return tensor;
      return other(object);
    }
    if (torch_tensor_.is_valid() && object.type().ptr() == torch_tensor_.ptr()) {
      if (auto tensor = torch_tensor(object)) return tensor;
      return other(object);
    }
    if (type == &PyDict_Type) {
      open(o, Kind::kDict, std::nullopt, nb::steal(PyDict_Values(o)), nb::steal(PyDict_Keys(o)));
      return std::nullopt;
    }
    if (type == &PyLong_Type) return integer(object);
    if (type == &PyFloat_Type) return Value::real(PyFloat_AsDouble(o));
    if (type == &PyBool_Type) return Value::boolean(o == Py_True);
    if (o == Py_None) return Value::null();
    if (type == &PyList_Type) {
      open(o, Kind::kList, std::nullopt, nb::steal(PyList_GetSlice(o, 0, PyList_Size(o))), {});
      return std::nullopt;
    }
    if (type == &PyTuple_Type) {
      open(o, Kind::kTuple, std::nullopt, nb::steal(PySequence_List(o)), {});
      return std::nullopt;
    }
    if (type == &PySet_Type) {
      open(o, Kind::kSet, std::nullopt, nb::steal(PySequence_List(o)), {});
      return std::nullopt;
    }
    if (type == &PyComplex_Type) {
      return Value::complex({PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)});
    }
    if (type == &PyBytes_Type) return bytes(object);
    return other(object);
  }

  Value string(nb::handle object) {
    try {
      return Value::string(std::string(text_of(object)));
    } catch (nb::python_error&) {
      refuse("a str with lone surrogates is no Unicode text; save its bytes");
    }
  }

  static Value bytes(nb::handle object) {
    const nb::bytes data = nb::borrow<nb::bytes>(object);
    const auto* begin = static_cast<const std::byte*>(data.data());
    return Value::bytes(std::vector<std::byte>(begin, begin + data.size()));
  }

  Value integer(nb::handle object) {
    int overflow = 0;
    const std::int64_t small = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    if (overflow == 0) return Value::integer(small);
    const auto length = nb::cast<std::size_t>(object.attr("bit_length")()) / 8 + 1;
    const nb::object encoded = object.attr("to_bytes")(length, "little", nb::arg("signed") = true);
    auto big = BigInt::from_bytes(
        {static_cast<const std::byte*>(nb::borrow<nb::bytes>(encoded).data()), length});
    if (!big) {  // One byte too many: -(2 ** (8n - 1)) needs n.
      big = BigInt::from_bytes(
          {static_cast<const std::byte*>(nb::borrow<nb::bytes>(encoded).data()), length - 1});
    }
    if (!big) raise(big.error());
    if (const std::size_t size = big->bytes().size(); size > Limits{}.bigint_bytes) {
      refuse("an int of " + std::to_string(size) + " bytes, and a checkpoint has those of up to " +
             std::to_string(Limits{}.bigint_bytes) + "; save what its to_bytes() returns");
    }
    return Value::integer(std::move(*big));
  }

  void open(const PyObject* object, Kind kind, std::optional<std::string> label,
            nb::object children, nb::object keys) {
    if (!children.is_valid()) throw nb::python_error();
    if (object != nullptr && !open_.insert(object).second) {
      refuse("it contains itself; a checkpoint is a tree");
    }
    if (frames_.size() >= Limits{}.depth) {
      refuse("containers are nested more than " + std::to_string(Limits{}.depth) + " deep");
    }
    const auto count = static_cast<std::size_t>(PyList_Size(children.ptr()));
    if (keys.is_valid() && PyList_Size(keys.ptr()) != static_cast<Py_ssize_t>(count)) {
      refuse("it has " + std::to_string(PyList_Size(keys.ptr())) + " keys or fields, and " +
             std::to_string(count) + " values");
    }
    Frame& frame = frames_.emplace_back();
    frame.object = object;
    frame.kind = kind;
    frame.label = std::move(label);
    frame.children = std::move(children);
    frame.keys = std::move(keys);
    frame.done.reserve(count);
    if (frame.keys.is_valid()) frame.done_keys.reserve(count);
  }

  Value end() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    if (frame.object != nullptr) open_.erase(frame.object);
    Value value;
    if (has_keys(frame.kind)) {
      std::vector<Value::Item> items;
      items.reserve(frame.done.size());
      for (std::size_t i = 0; i < frame.done.size(); ++i) {
        items.emplace_back(std::move(frame.done_keys[i]), std::move(frame.done[i]));
      }
      value = frame.kind == Kind::kDict ? Value::dict(std::move(items))
                                        : Value::record(std::move(items));
    } else if (frame.kind == Kind::kList) {
      value = Value::list(std::move(frame.done));
    } else if (frame.kind == Kind::kTuple) {
      value = Value::tuple(std::move(frame.done));
    } else {
      value = Value::set(std::move(frame.done));
    }
    return with_label(std::move(value), std::move(frame.label));
  }

  static Value with_label(Value value, std::optional<std::string> label) {
    return label ? std::move(value).labelled(std::move(*label)) : std::move(value);
  }

  void add_key(Frame& frame, nb::handle key) {
    if (Py_TYPE(key.ptr()) == &PyUnicode_Type) {
      try {
        frame.done_keys.emplace_back(text_of(key));
        return;
      } catch (nb::python_error&) {
        refuse("a key is a str with lone surrogates, which is no Unicode text", false);
      }
    }
    // bool is a subclass of int, and True is not the key 1.
    if (Py_TYPE(key.ptr()) == &PyLong_Type) {
      int overflow = 0;
      const std::int64_t integer = PyLong_AsLongLongAndOverflow(key.ptr(), &overflow);
      if (overflow == 0) {
        frame.done_keys.emplace_back(integer);
        return;
      }
    }
    refuse("the key " + nb::cast<std::string>(nb::repr(key)) +
               " is neither a str nor an int of 64 bits; turn such keys into these with str() or "
               "int()",
           false);
  }

  // An array that can be borrowed as it is; nothing for others.
  std::optional<Value> array(nb::handle object) {
    if (auto found = by_object_.find(object.ptr()); found != by_object_.end()) {
      return Value::tensor(found->second);
    }
    const auto dtype = number_of(by_dtype_, object);
    if (!dtype) return std::nullopt;
    const nb::object capsule = nb::getattr(object, names_.array_struct);
    const auto* const layout =
        static_cast<const ArrayInterface*>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
    if (layout == nullptr) throw nb::python_error();
    constexpr int kCOrder = 1;
    if ((layout->flags & kCOrder) == 0) return std::nullopt;
    Tensor tensor;
    tensor.dtype = *dtype;
    std::uint64_t length = static_cast<std::uint64_t>(layout->item_bytes);
    for (int i = 0; i < layout->axes; ++i) {
      tensor.shape.push_back(static_cast<std::uint64_t>(layout->shape[i]));
      length *= tensor.shape.back();
    }
    return borrow(object, std::move(tensor), static_cast<const std::byte*>(layout->data), length,
                  false);
  }

  // The same for a tensor of torch. Those with gradients have labels. What torch refuses to tell is
  // an error of espalier/_torch.py.
  std::optional<Value> torch_tensor(nb::handle object) try {
    if (auto found = by_object_.find(object.ptr()); found != by_object_.end()) {
      return Value::tensor(found->second);
    }
    const auto dtype = number_of(torch_by_dtype_, object);
    const auto is = [&](const nb::object& name) {
      return nb::getattr(object, name).ptr() == Py_True;
    };
    const auto says = [&](const nb::object& name) {
      return nb::getattr(object, name)().ptr() == Py_True;
    };
    if (!dtype || !is(names_.is_cpu) || is(names_.requires_grad) || is(names_.is_nested) ||
        nb::getattr(object, names_.layout).ptr() != torch_strided_.ptr() ||
        !says(names_.is_contiguous) || says(names_.is_neg)) {
      return std::nullopt;
    }
    Tensor tensor;
    tensor.dtype = *dtype;
    const nb::tuple shape = nb::borrow<nb::tuple>(nb::getattr(object, names_.shape));
    for (std::size_t i = 0; i < shape.size(); ++i) {
      tensor.shape.push_back(nb::cast<std::uint64_t>(shape[i]));
    }
    const auto length = nb::cast<std::uint64_t>(nb::getattr(object, names_.nbytes));
    const auto address = nb::cast<std::uintptr_t>(nb::getattr(object, names_.data_ptr)());
    // A storage may be shorter than its tensors: FSDP frees it with resize_(0).
    const nb::object storage = nb::getattr(object, names_.untyped_storage)();
    const auto begin = nb::cast<std::uintptr_t>(nb::getattr(storage, names_.data_ptr)());
    const auto size = nb::cast<std::uint64_t>(nb::getattr(storage, names_.nbytes)());
    if (length != 0 && (address < begin || !range_fits(address - begin, length, size))) {
      return std::nullopt;
    }
    return borrow(object, std::move(tensor), reinterpret_cast<const std::byte*>(address), length,
                  false);
  } catch (nb::python_error&) {
    return std::nullopt;
  }

  // The number of an array's dtype; nothing for one that must be converted.
  std::optional<DType> number_of(const nb::dict& numbers, nb::handle array) const {
    const nb::object dtype = nb::getattr(array, names_.dtype);
    PyObject* const number = PyDict_GetItemWithError(numbers.ptr(), dtype.ptr());
    if (number != nullptr) return static_cast<DType>(nb::cast<int>(nb::handle(number)));
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return std::nullopt;
  }

  // A tensor of memory that `object` keeps: the one that was made of the same memory before, if
  // dtype and shape are the same, too.
  Value borrow(nb::handle object, Tensor tensor, const std::byte* begin, std::uint64_t length,
               bool is_private, bool is_constant = false) {
    tensor.data = TensorData::borrowed({begin, static_cast<std::size_t>(length)});
    kept_.push_back(nb::borrow(object));
    if (length != 0) borrowed_.push_back({object, {begin, static_cast<std::size_t>(length)}});
    if (length != 0 && !is_private) {
      auto& there = by_address_[begin];
      for (const auto& other : there) {
        if (other->dtype != tensor.dtype || other->shape != tensor.shape) continue;
        if (other->axis_names != tensor.axis_names) continue;
        by_object_.emplace(object.ptr(), other);
        if (!is_constant) constants_.erase(other.get());
        return Value::tensor(other);
      }
    }
    auto made = std::make_shared<Tensor>(std::move(tensor));
    by_object_.emplace(object.ptr(), made);
    if (length != 0 && !is_private) {
      by_address_[begin].push_back(made);
      ranges_.push_back({begin, begin + length, made.get()});
    }
    if (length != 0 && is_constant)
      constants_.emplace(made.get(), Constant{made, nb::borrow(object)});
    return Value::tensor(std::move(made));
  }

  // Whether a save in the background need not copy an array: it is a copy itself, or its framework
  // knows that nothing changes it.
  bool is_constant(const nb::object& parts) const {
    if (use_ != Use::kBackground) return false;
    if (nb::cast<bool>(parts.attr("is_private"))) return true;
    const nb::object is_constant = parts.attr("is_constant");
    return !is_constant.is_none() && nb::cast<bool>(is_constant());
  }

  // Makes producers of the tensors that cannot change.
  void keep_constants() {
    for (auto& [_, constant] : constants_) {
      const ByteSpan bytes = *constant.tensor->data.memory();
      constant.tensor->data = TensorData::produced(
          [bytes, keeper = std::make_shared<const KeptObject>(std::move(constant.object))](
              std::uint64_t offset, MutableByteSpan out) -> Result<void> {
            if (!range_fits(offset, out.size(), bytes.size())) {
              return fail(ErrorCode::kInvalidTree, "an array has fewer bytes than its shape needs");
            }
            std::memcpy(out.data(), bytes.data() + offset, out.size());
            return {};
          });
    }
  }

  // What espalier/_encode.py makes of an object: its kind, its label or None, and its content.
  std::optional<Value> other(nb::handle object) {
    if (auto found = labelled_.find(object.ptr()); found != labelled_.end()) return found->second;
    nb::object made;
    has_run_code_ = true;
    try {
      made = encode_other_(object);
    } catch (nb::python_error& error) {
      raise(encoder_.attr("at_path")(error.value(), path()));
    }
    try {
      return from_parts(object, nb::cast<nb::tuple>(made));
    } catch (const std::bad_cast&) {  // of a wrapper that the program made
      refuse("a label is no text, or a shape, block or name of an axis is no such thing");
    }
  }

  std::optional<Value> from_parts(nb::handle object, const nb::tuple& parts) {
    const auto kind = static_cast<Kind>(nb::cast<int>(parts[0]));
    auto label = nb::cast<std::optional<std::string>>(parts[1]);
    const nb::object content = parts[2];
    if (has_keys(kind)) {
      // espalier/_attributes.py: a subclass of tuple.
      if (Py_TYPE(content.ptr()) != &PyTuple_Type && nb::hasattr(content, "attributes")) {
        attributes_.append(nb::make_tuple(path(), content.attr("attributes")));
      }
      open(object.ptr(), kind, std::move(label), list_of(content[1]), list_of(content[0]));
      kept_.push_back(nb::borrow(object));
      return std::nullopt;
    }
    if (is_container(kind)) {
      open(object.ptr(), kind, std::move(label), list_of(content), {});
      kept_.push_back(nb::borrow(object));
      return std::nullopt;
    }
    if (kind == Kind::kTensor || kind == Kind::kPlaceholder) {
      Value value = with_label(tensor(object, content), std::move(label));
      // Its address stays the object's as long as it is kept.
      kept_.push_back(nb::borrow(object));
      labelled_.emplace(object.ptr(), value);
      return value;
    }
    auto value = begin(content);
    return with_label(std::move(*value), std::move(label));
  }

  // A tensor from its parts (_tree.TensorParts), which are those of `object`.
  Value tensor(nb::handle object, const nb::object& parts) {
    Tensor tensor;
    tensor.dtype = static_cast<DType>(nb::cast<int>(parts.attr("dtype")));
    tensor.shape = nb::cast<std::vector<std::uint64_t>>(parts.attr("shape"));
    tensor.axis_names = nb::cast<std::vector<std::string>>(parts.attr("axis_names"));
    if (const nb::object block = parts.attr("block"); !block.is_none()) {
      tensor.block_name = nb::cast<std::string>(block[0]);
      tensor.block_elements = nb::cast<std::uint32_t>(block[1]);
      tensor.block_bytes = nb::cast<std::uint32_t>(block[2]);
    }
    const nb::object data = parts.attr("data");
    if (data.is_none()) return Value::tensor(std::move(tensor));
    const nb::object tie = parts.attr("tie");
    if (!tie.is_none() && ties_.contains(tie)) {
      return Value::tensor(tied_[nb::cast<std::size_t>(ties_[tie])]);
    }
    const ByteSpan bytes = bytes_of(parts);
    const bool is_private = nb::cast<bool>(parts.attr("is_private"));
    Value value;
    if (is_private && use_ == Use::kOneByOne && !bytes.empty()) {
      auto array =
          std::make_shared<CopiedArray>(encode_other_, nb::borrow(object), bytes.size(), raised_);
      tensor.data = TensorData::produced(
          [array](std::uint64_t offset, MutableByteSpan out) { return array->read(offset, out); });
      value = Value::tensor(std::move(tensor));
    } else {
      value = borrow(data, std::move(tensor), bytes.data(), bytes.size(), is_private,
                     is_constant(parts));
    }
    if (!tie.is_none()) {
      ties_[tie] = tied_.size();
      tied_.push_back(value.as_tensor());
    }
    return value;
  }

  // Arrays that overlap would be saved apart, and no longer share memory when they are loaded.
  void check_views(const Value& root) {
    if (views_ == Views::kCopy && constants_.empty()) return;
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    const Range* last = nullptr;
    for (const Range& range : ranges_) {
      if (last != nullptr && range.begin < last->end) {
        if (views_ == Views::kError) {
          raise(encoder_.attr("overlap")(path_of(root, last->tensor), path_of(root, range.tensor)));
        }
        // Who changes one changes the other.
        constants_.erase(last->tensor);
        constants_.erase(range.tensor);
      }
      if (last == nullptr || range.end > last->end) last = &range;
    }
  }

  // That arrays still have their memory: a state_dict() or a `to=` of a later part of the state may
  // free or move it, and the save would read what is no longer theirs.
  void check_memory(const Value& root) const {
    for (const auto& [object, bytes] : borrowed_) {
      if (has_memory(object, bytes)) continue;
      const std::string path = path_to(root, bytes);
      raise(encoder_.attr("at_path")(
          encoder_.attr("Unsupported")("this array lost or changed its memory while other parts of "
                                       "the state were encoded; save a copy of it"),
          path));
    }
  }

  bool has_memory(nb::handle object, ByteSpan bytes) const {
    const auto needed = reinterpret_cast<std::uintptr_t>(bytes.data());
    const auto has = [&](std::uintptr_t begin, std::uint64_t size) {
      return needed >= begin && range_fits(needed - begin, bytes.size(), size);
    };
    if (torch_tensor_.is_valid() && nb::isinstance(object, torch_tensor_)) {
      const nb::object storage = nb::getattr(object, names_.untyped_storage)();
      return has(nb::cast<std::uintptr_t>(nb::getattr(storage, names_.data_ptr)()),
                 nb::cast<std::uint64_t>(nb::getattr(storage, names_.nbytes)()));
    }
    if (ndarray_.is_valid() && nb::isinstance(object, ndarray_)) {
      const nb::object capsule = nb::getattr(object, names_.array_struct);
      const auto* const layout =
          static_cast<const ArrayInterface*>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
      if (layout == nullptr) throw nb::python_error();
      return has(reinterpret_cast<std::uintptr_t>(layout->data),
                 nb::cast<std::uint64_t>(nb::getattr(object, names_.nbytes)));
    }
    return true;  // Others don't move theirs.
  }

  // The path to a tensor of this memory.
  static std::string path_to(const Value& root, ByteSpan bytes) {
    std::vector<std::pair<const Value*, KeyPath>> pending = {{&root, {}}};
    while (!pending.empty()) {
      auto [value, path] = std::move(pending.back());
      pending.pop_back();
      if (const auto& tensor = value->as_tensor(); tensor != nullptr && tensor->data.memory() &&
                                                   tensor->data.memory()->data() == bytes.data()) {
        return path.to_string();
      }
      for (std::size_t i = 0; i < value->children().size(); ++i) {
        KeyPath below = path;
        below.push_back(value->keys().empty() ? Key(static_cast<std::int64_t>(i))
                                              : value->keys()[i]);
        pending.emplace_back(&value->children()[i], std::move(below));
      }
    }
    return {};
  }

  // To the object that is encoded, or, while a key is, to the container that has it.
  std::string path(bool is_of_child = true) const {
    KeyPath path;
    for (const Frame& frame : frames_) {
      if (!is_of_child && &frame == &frames_.back()) break;
      if (frame.keys.is_valid()) {
        if (!frame.done_keys.empty()) path.push_back(frame.done_keys.back());
      } else {
        path.push_back(frame.next - 1);
      }
    }
    return path.to_string();
  }

  [[noreturn]] void refuse(const std::string& why, bool is_of_child = true) const {
    PyErr_Clear();
    raise(encoder_.attr("at_path")(encoder_.attr("Unsupported")(why), path(is_of_child)));
  }

  Views views_;
  Use use_;
  nb::object encoder_;
  nb::object encode_other_;
  nb::object ndarray_;
  nb::dict by_dtype_;
  nb::object torch_tensor_;
  nb::object torch_strided_;
  nb::dict torch_by_dtype_;
  Names names_;
  std::vector<Frame> frames_;
  std::unordered_set<const PyObject*> open_;
  std::unordered_map<const PyObject*, std::shared_ptr<const Tensor>> by_object_;
  std::unordered_map<const std::byte*, std::vector<std::shared_ptr<const Tensor>>> by_address_;
  std::unordered_map<const PyObject*, Value> labelled_;
  // Tensors that were copied, by what they are copies of (_tree.TensorParts.tie).
  nb::dict ties_;
  std::vector<std::shared_ptr<const Tensor>> tied_;
  std::vector<Range> ranges_;
  std::unordered_map<const Tensor*, Constant> constants_;
  std::vector<nb::object> kept_;
  // Arrays, which kept_ keeps, and the memory that the save will read.
  std::vector<std::pair<nb::handle, ByteSpan>> borrowed_;
  std::shared_ptr<Raised> raised_ = std::make_shared<Raised>();
  bool has_run_code_ = false;  // of the program
  nb::list attributes_;
};

}  // namespace

nb::object Encoded::with_attributes(nb::handle metadata) const {
  if (nb::len(attributes) == 0) return nb::borrow(metadata);
  return nb::module_::import_("espalier._attributes").attr("added")(metadata, attributes);
}

Encoded encode(nb::handle object, Views views, Use use) {
  return Encoder(views, use).encode(object);
}

}  // namespace espalier::python
