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
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "espalier/base/limits.h"
#include "espalier/tree/bigint.h"
#include "espalier/tree/dtype.h"
#include "espalier/tree/key_path.h"
#include "espalier/tree/kind.h"

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

class Encoder {
 public:
  explicit Encoder(Views views)
      : views_(views),
        encoder_(nb::module_::import_("espalier._encode")),
        encode_other_(encoder_.attr("encode_other")) {
    const nb::dict modules = nb::cast<nb::dict>(nb::module_::import_("sys").attr("modules"));
    if (!modules.contains("numpy")) return;  // Then no object is an array.
    ndarray_ = nb::module_::import_("numpy").attr("ndarray");
    by_dtype_ = nb::cast<nb::dict>(nb::module_::import_("espalier._dtypes").attr("by_dtype")());
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
    return {std::move(*value), std::move(kept_)};
  }

 private:
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    const Tensor* tensor;
  };

  // The value of an object without children; nothing after a new frame.
  std::optional<Value> begin(nb::handle object) {
    PyObject* const o = object.ptr();
    const PyTypeObject* const type = Py_TYPE(o);
    // Exact types alone: what a subclass adds would be lost.
    if (type == &PyUnicode_Type) return string(object);
    if (object.type().ptr() == ndarray_.ptr()) {
      if (auto tensor = array(object)) return tensor;
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
        refuse("a key is a str with lone surrogates, which is no Unicode text");
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
           " is neither a str nor an int of 64 bits; turn such keys into str");
  }

  // An array that can be borrowed as it is; nothing for others.
  std::optional<Value> array(nb::handle object) {
    if (auto found = by_object_.find(object.ptr()); found != by_object_.end()) {
      return Value::tensor(found->second);
    }
    const nb::object dtype = object.attr("dtype");
    PyObject* const number = PyDict_GetItemWithError(by_dtype_.ptr(), dtype.ptr());
    if (number == nullptr) {
      if (PyErr_Occurred() != nullptr) throw nb::python_error();
      return std::nullopt;
    }
    const nb::dict interface = nb::cast<nb::dict>(object.attr("__array_interface__"));
    if (!nb::object(interface["strides"]).is_none()) return std::nullopt;  // not in C order
    Tensor tensor;
    tensor.dtype = static_cast<DType>(nb::cast<int>(nb::handle(number)));
    for (const nb::handle length : nb::cast<nb::tuple>(interface["shape"])) {
      tensor.shape.push_back(nb::cast<std::uint64_t>(length));
    }
    const nb::tuple data = nb::cast<nb::tuple>(interface["data"]);
    const auto address = nb::cast<std::uintptr_t>(data[0]);
    return borrow(object, std::move(tensor), reinterpret_cast<const std::byte*>(address),
                  nb::cast<std::uint64_t>(object.attr("nbytes")), false);
  }

  // A tensor of memory that `object` keeps: the one that was made of the same memory before, if
  // dtype and shape are the same, too.
  Value borrow(nb::handle object, Tensor tensor, const std::byte* begin, std::uint64_t length,
               bool is_private) {
    tensor.data = TensorData::borrowed({begin, static_cast<std::size_t>(length)});
    kept_.push_back(nb::borrow(object));
    if (length != 0 && !is_private) {
      auto& there = by_address_[begin];
      for (const auto& other : there) {
        if (other->dtype != tensor.dtype || other->shape != tensor.shape) continue;
        if (other->axis_names != tensor.axis_names) continue;
        by_object_.emplace(object.ptr(), other);
        return Value::tensor(other);
      }
      auto made = std::make_shared<const Tensor>(std::move(tensor));
      there.push_back(made);
      by_object_.emplace(object.ptr(), made);
      ranges_.push_back({begin, begin + length, made.get()});
      return Value::tensor(std::move(made));
    }
    auto made = std::make_shared<const Tensor>(std::move(tensor));
    by_object_.emplace(object.ptr(), made);
    return Value::tensor(std::move(made));
  }

  // What espalier/_encode.py makes of an object: its kind, its label or None, and its content.
  std::optional<Value> other(nb::handle object) {
    if (auto found = labelled_.find(object.ptr()); found != labelled_.end()) return found->second;
    nb::object made;
    try {
      made = encode_other_(object);
    } catch (nb::python_error& error) {
      raise(encoder_.attr("at_path")(error.value(), path()));
    }
    const nb::tuple parts = nb::cast<nb::tuple>(made);
    const auto kind = static_cast<Kind>(nb::cast<int>(parts[0]));
    auto label = nb::cast<std::optional<std::string>>(parts[1]);
    const nb::object content = parts[2];
    if (has_keys(kind)) {
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
      Value value = with_label(tensor(content), std::move(label));
      // Its address stays the object's as long as it is kept.
      kept_.push_back(nb::borrow(object));
      labelled_.emplace(object.ptr(), value);
      return value;
    }
    auto value = begin(content);
    return with_label(std::move(*value), std::move(label));
  }

  // A tensor from its parts (_tree.TensorParts).
  Value tensor(const nb::object& parts) {
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
    const nb::dict interface = nb::cast<nb::dict>(data.attr("__array_interface__"));
    const auto address = nb::cast<std::uintptr_t>(nb::cast<nb::tuple>(interface["data"])[0]);
    return borrow(data, std::move(tensor), reinterpret_cast<const std::byte*>(address),
                  nb::cast<std::uint64_t>(data.attr("nbytes")),
                  nb::cast<bool>(parts.attr("is_private")));
  }

  // Arrays that overlap would be saved apart, and no longer share memory when they are loaded.
  void check_views(const Value& root) {
    if (views_ == Views::kCopy) return;
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    const Range* last = nullptr;
    for (const Range& range : ranges_) {
      if (last != nullptr && range.begin < last->end) {
        raise(encoder_.attr("overlap")(path_of(root, last->tensor), path_of(root, range.tensor)));
      }
      if (last == nullptr || range.end > last->end) last = &range;
    }
  }

  std::string path() const {
    KeyPath path;
    for (const Frame& frame : frames_) {
      if (frame.keys.is_valid()) {
        if (!frame.done_keys.empty()) path.push_back(frame.done_keys.back());
      } else {
        path.push_back(frame.next - 1);
      }
    }
    return path.to_string();
  }

  [[noreturn]] void refuse(const std::string& why) const {
    PyErr_Clear();
    raise(encoder_.attr("at_path")(encoder_.attr("Unsupported")(why), path()));
  }

  Views views_;
  nb::object encoder_;
  nb::object encode_other_;
  nb::object ndarray_;
  nb::dict by_dtype_;
  std::vector<Frame> frames_;
  std::unordered_set<const PyObject*> open_;
  std::unordered_map<const PyObject*, std::shared_ptr<const Tensor>> by_object_;
  std::unordered_map<const std::byte*, std::vector<std::shared_ptr<const Tensor>>> by_address_;
  std::unordered_map<const PyObject*, Value> labelled_;
  std::vector<Range> ranges_;
  std::vector<nb::object> kept_;
};

}  // namespace

Encoded encode(nb::handle object, Views views) { return Encoder(views).encode(object); }

}  // namespace espalier::python
