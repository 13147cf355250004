#include "decode.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "espalier/bigint.h"
#include "espalier/kind.h"

namespace espalier::python {

namespace nb = nanobind;

namespace {

nb::object text(std::string_view text) {
  return nb::steal(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

struct Frame {
  const Value* value = nullptr;
  std::size_t next = 0;
  nb::object made;  // a dict, or a list
};

class Decoder {
 public:
  Decoder(Arrays& arrays, bool exact, nb::object convert)
      : arrays_(arrays),
        exact_(exact),
        convert_(std::move(convert)),
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
    // Names such as "weight" come again and again, and names such as "layers.7.weight" once.
    Name& name = names_[std::hash<std::string_view>()(view.text) % names_.size()];
    if (!name.made.is_valid() || name.text != view.text) name = {view.text, text(view.text)};
    return name.made;
  }

  nb::object leaf(const Value& value) {
    if (const auto tensor = value.as_tensor()) {
      // The tree and `tensor` own it; another owner is another place in the tree, a tie.
      if (tensor.use_count() == 2) return this->tensor(value, *tensor);
      auto& made = tensors_[{tensor.get(), std::string(value.label())}];
      if (!made.is_valid()) made = this->tensor(value, *tensor);
      return made;
    }
    nb::object made = decode_scalar(value);
    return value.has_label() ? other(value, made) : made;
  }

  nb::object tensor(const Value& value, const Tensor& tensor) {
    nb::object array;
    if (const auto memory = tensor.data.memory()) {
      array = arrays_.make(tensor.dtype, tensor.shape, value.label(), *memory,
                           std::make_shared<TensorData>(tensor.data));
    }
    if (!array.is_valid() || !arrays_.is_made_here(tensor.dtype, value.label()) ||
        !tensor.axis_names.empty() || exact_) {
      array = other_tensor(value, tensor, array);
    }
    return convert_.is_none() ? array : convert_(array);
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
    return module_.attr("decode_tensor")(
        label(value), static_cast<int>(tensor.dtype), nb::tuple(nb::cast(tensor.shape)),
        nb::tuple(nb::cast(tensor.axis_names)), block,
        array.is_valid() ? array : nb::object(nb::none()), exact_, arrays_.framework());
  }

  static nb::object label(const Value& value) {
    return value.has_label() ? text(value.label()) : nb::object(nb::none());
  }

  struct Name {
    std::string_view text;  // of the tree
    nb::object made;
  };
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
  nb::object convert_;
  nb::object module_;
  nb::object decode_other_;
  std::vector<Frame> frames_;
  std::array<Name, 256> names_;  // by their hash, the last one of each
  // Ties: one object for all nodes with the same tensor and label.
  std::unordered_map<TensorKey, nb::object, TensorKeyHash> tensors_;
};

}  // namespace

nb::object decode(const Value& root, Arrays& arrays, bool exact, const nb::object& convert) {
  return Decoder(arrays, exact, convert).decode(root);
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
