#include "decode.h"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "espalier/tree/bigint.h"
#include "espalier/tree/kind.h"

namespace espalier::python {

namespace nb = nanobind;

namespace {

nb::object text(std::string_view text) {
  return nb::steal(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

// The owner of memory that Python objects use.
nb::capsule capsule_of(std::shared_ptr<const void> keeper) {
  auto owned = std::make_unique<std::shared_ptr<const void>>(std::move(keeper));
  nb::capsule capsule(
      owned.get(), [](void* p) noexcept { delete static_cast<std::shared_ptr<const void>*>(p); });
  owned.release();
  return capsule;
}

struct Frame {
  const Value* value = nullptr;
  std::size_t next = 0;
  nb::object made;  // a dict, or a list
};

class Decoder {
 public:
  Decoder(Arrays& arrays, bool exact)
      : arrays_(arrays),
        exact_(exact),
        module_(nb::module_::import_("espalier._decode")),
        decode_other_(module_.attr("decode_other")) {}

  nb::object decode(const Value& root) {
    nb::object made = begin(root);
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (made.is_valid()) {
        add(frame, made);
        made = nb::object();
      }
      if (frame.next == frame.value->children().size()) {
        made = end();
      } else {
        made = begin(frame.value->children()[frame.next++]);  // may add a frame
      }
    }
    return made;
  }

 private:
  // A dict, which keeps the order, holds unlabelled dicts; a list of values all others.
  static bool is_plain_dict(const Value& value) {
    return value.kind() == Kind::kDict && !value.has_label();
  }

  nb::object begin(const Value& value) {
    if (!is_container(value.kind())) return leaf(value);
    const auto count = static_cast<Py_ssize_t>(value.children().size());
    frames_.push_back(
        {&value, 0, is_plain_dict(value) ? nb::steal(PyDict_New()) : nb::steal(PyList_New(count))});
    return {};
  }

  void add(Frame& frame, const nb::object& child) {
    const std::size_t i = frame.next - 1;
    if (is_plain_dict(*frame.value)) {
      if (PyDict_SetItem(frame.made.ptr(), key(frame.value->keys()[i]).ptr(), child.ptr()) != 0) {
        throw nb::python_error();
      }
    } else {
      PyList_SetItem(frame.made.ptr(), static_cast<Py_ssize_t>(i), child.inc_ref().ptr());
    }
  }

  nb::object end() {
    const Frame frame = std::move(frames_.back());
    frames_.pop_back();
    const Value& value = *frame.value;
    if (value.has_label() || value.kind() == Kind::kSet || value.kind() == Kind::kRecord) {
      nb::object content = frame.made;
      if (has_keys(value.kind())) {
        nb::list keys;
        for (const Key& each : value.keys()) keys.append(key(each));
        content = nb::make_tuple(keys, frame.made);
      }
      return other(value, content);
    }
    if (value.kind() == Kind::kTuple) return nb::steal(PyList_AsTuple(frame.made.ptr()));
    return frame.made;
  }

  nb::object key(const Key& key) {
    const KeyView view = key.view();
    if (view.is_int) return nb::steal(PyLong_FromLongLong(view.integer));
    // The same few names come again and again.
    const auto found = names_.find(std::string(view.text));
    if (found != names_.end()) return found->second;
    nb::object made = text(view.text);
    names_.emplace(view.text, made);
    return made;
  }

  nb::object leaf(const Value& value) {
    if (const auto tensor = value.as_tensor()) return this->tensor(value, *tensor);
    nb::object made = decode_scalar(value);
    return value.has_label() ? other(value, made) : made;
  }

  nb::object tensor(const Value& value, const Tensor& tensor) {
    // Ties: one object for all nodes with the same tensor and label.
    auto& made = tensors_[{&tensor, std::string(value.label())}];
    if (made.is_valid()) return made;
    nb::object array;
    if (const auto memory = tensor.data.memory()) {
      array = arrays_.make(tensor.dtype, tensor.shape, *memory,
                           std::make_shared<TensorData>(tensor.data));
    }
    if (!array.is_valid() || !arrays_.has_dtype(tensor.dtype) || value.has_label() ||
        !tensor.axis_names.empty() || exact_) {
      array = other_tensor(value, tensor, array);
    }
    made = array;
    return made;
  }

  nb::object other(const Value& value, const nb::object& content) {
    return decode_other_(static_cast<int>(value.kind()), label(value), content, exact_);
  }

  nb::object other_tensor(const Value& value, const Tensor& tensor, const nb::object& array) {
    const nb::object block =
        tensor.dtype == DType::kOpaque
            ? nb::object(
                  nb::make_tuple(tensor.block_name, tensor.block_elements, tensor.block_bytes))
            : nb::object(nb::none());
    return module_.attr("decode_tensor")(label(value), static_cast<int>(tensor.dtype),
                                         nb::tuple(nb::cast(tensor.shape)),
                                         nb::tuple(nb::cast(tensor.axis_names)), block,
                                         array.is_valid() ? array : nb::object(nb::none()), exact_);
  }

  static nb::object label(const Value& value) {
    return value.has_label() ? text(value.label()) : nb::object(nb::none());
  }

  struct TensorKey {
    const Tensor* tensor;
    std::string label;
    bool operator==(const TensorKey&) const = default;
  };
  struct TensorKeyHash {
    std::size_t operator()(const TensorKey& key) const {
      return std::hash<const void*>()(key.tensor) ^ std::hash<std::string>()(key.label);
    }
  };

  Arrays& arrays_;
  bool exact_;
  nb::object module_;
  nb::object decode_other_;
  std::vector<Frame> frames_;
  std::unordered_map<std::string, nb::object> names_;
  std::unordered_map<TensorKey, nb::object, TensorKeyHash> tensors_;
};

}  // namespace

Arrays::Arrays(std::optional<ByteSpan> mapping, std::shared_ptr<const void> keeper)
    : mapping_(mapping),
      ndarray_(nb::module_::import_("numpy").attr("ndarray")),
      by_number_(nb::module_::import_("espalier._dtypes").attr("by_number")()),
      uint8_(nb::module_::import_("numpy").attr("uint8")) {
  if (mapping_) base_ = buffer(*mapping_, std::move(keeper));
}

nb::object Arrays::buffer(ByteSpan bytes, std::shared_ptr<const void> keeper) const {
  return nb::cast(nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(
      bytes.data(), {bytes.size()}, capsule_of(std::move(keeper))));
}

bool Arrays::has_dtype(DType dtype) const {
  return !nb::object(by_number_[static_cast<int>(dtype)]).is_none();
}

nb::object Arrays::make(DType dtype, const std::vector<std::uint64_t>& shape, ByteSpan bytes,
                        std::shared_ptr<const void> keeper) {
  nb::object base;
  std::size_t offset = 0;
  if (mapping_ && !bytes.empty() && bytes.data() >= mapping_->data() &&
      bytes.data() < mapping_->data() + mapping_->size()) {
    base = base_;
    offset = static_cast<std::size_t>(bytes.data() - mapping_->data());
  } else {
    base = buffer(bytes, std::move(keeper));
  }
  const nb::object type = by_number_[static_cast<int>(dtype)];
  if (type.is_none()) return ndarray_(nb::make_tuple(bytes.size()), uint8_, base, offset);
  return ndarray_(nb::tuple(nb::cast(shape)), type, base, offset);
}

nb::object decode(const Value& root, Arrays& arrays, bool exact) {
  return Decoder(arrays, exact).decode(root);
}

nb::object decode_scalar(const Value& value) {
  switch (value.kind()) {
    case Kind::kBool:
      return nb::bool_(*value.as_bool());
    case Kind::kInt64:
      return nb::steal(PyLong_FromLongLong(*value.as_int64()));
    case Kind::kBigInt: {
      const ByteSpan bytes = value.as_bigint()->bytes();
      return nb::handle(reinterpret_cast<PyObject*>(&PyLong_Type))
          .attr("from_bytes")(nb::bytes(bytes.data(), bytes.size()), "little",
                              nb::arg("signed") = true);
    }
    case Kind::kFloat64:
      return nb::float_(*value.as_double());
    case Kind::kComplex128: {
      const auto number = *value.as_complex();
      return nb::steal(PyComplex_FromDoubles(number.real(), number.imag()));
    }
    case Kind::kString:
      return text(*value.as_string());
    case Kind::kBytes: {
      const auto& data = *value.as_bytes();
      return nb::bytes(data.data(), data.size());
    }
    default:
      return nb::none();
  }
}

}  // namespace espalier::python
