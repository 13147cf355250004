// Building and editing trees in memory.
#include <cstring>
#include <memory>
#include <type_traits>

#include "c/handles.h"

#include "espalier/bigint.h"

namespace espalier::c {
namespace {

std::span<const std::byte> bytes_of(const void* data, size_t size) {
  return {static_cast<const std::byte*>(data), size};
}

// Runs `add` with a child that the call takes over, to be added to `parent`.
template <class Add>
espalier_status take_child(espalier_value* parent, espalier_value* child, Arguments arguments,
                           espalier_error** error, const Add& add) {
  const std::unique_ptr<espalier_value> taken(child);
  return guarded(error, arguments.need_value(parent).need_value(child),
                 [&] { return add(parent->value, std::move(taken->value)); });
}

Result<void> check_container(const Value& value, bool with_keys) {
  if (is_container(value.kind()) && has_keys(value.kind()) == with_keys) return {};
  return fail(ErrorCode::kWrongKind,
              "this is no " + std::string(with_keys ? "dict or record" : "list, tuple or set") +
                  " but a " + std::string(kind_name(value.kind())));
}

Result<Tensor> make_tensor(const espalier_tensor_spec& spec, std::shared_ptr<const void> keeper) {
  const auto dtype = spec.dtype <= kLastDType
                         ? dtype_from_number(static_cast<std::uint8_t>(spec.dtype))
                         : std::nullopt;
  if (!dtype) {
    return fail(ErrorCode::kInvalidArgument,
                "there is no dtype " + std::to_string(spec.dtype) +
                    "; espalier_dtype_from_name() gives 0 for a name that it does not know");
  }
  if (auto ok = Arguments().need({spec.shape, spec.rank}).check(); !ok) return propagate(ok);
  if (spec.data == nullptr && spec.data_bytes != 0 && spec.produce == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "`data` is NULL, and `data_bytes` is not 0");
  }
  Tensor tensor{.dtype = *dtype,
                .shape = {spec.shape, spec.shape + spec.rank},
                .block_name = spec.block_name != nullptr ? spec.block_name : "",
                .block_elements = spec.block_elements,
                .block_bytes = spec.block_bytes};
  if (spec.axis_names != nullptr) {
    for (std::uint32_t i = 0; i < spec.rank; ++i) {
      if (auto ok = Arguments().need(spec.axis_names[i]).check(); !ok) return propagate(ok);
    }
    tensor.axis_names.assign(spec.axis_names, spec.axis_names + spec.rank);
  }
  if (spec.produce != nullptr) {
    tensor.data = TensorData::produced(
        [produce = spec.produce, context = spec.context, keeper = std::move(keeper)](
            std::uint64_t offset, MutableByteSpan out) -> Result<void> {
          const int failure = produce(context, offset, out.data(), out.size());
          if (failure == 0) return {};
          return fail(ErrorCode::kIoError,
                      "the tensor's producer failed with " + std::to_string(failure));
        });
  } else if (spec.data != nullptr) {
    tensor.data = TensorData::kept(bytes_of(spec.data, spec.data_bytes), std::move(keeper));
  }
  return tensor;
}

}  // namespace
}  // namespace espalier::c

using namespace espalier;
using espalier::c::Arguments;
using espalier::c::guarded;
using espalier::c::new_value;
using espalier::c::take_child;

espalier_value* espalier_new_null() {
  return new_value([] { return Value::null(); });
}

espalier_value* espalier_new_bool(int value) {
  return new_value([=] { return Value::boolean(value != 0); });
}

espalier_value* espalier_new_int(int64_t value) {
  return new_value([=] { return Value::integer(value); });
}

espalier_value* espalier_new_bigint(const void* bytes, size_t size) {
  if (bytes == nullptr && size != 0) return nullptr;
  try {
    auto value = BigInt::from_bytes(c::bytes_of(bytes, size));
    return value ? new espalier_value{Value::integer(std::move(*value))} : nullptr;
  } catch (...) {
    return nullptr;
  }
}

espalier_value* espalier_new_float(double value) {
  return new_value([=] { return Value::real(value); });
}

espalier_value* espalier_new_complex(double real, double imaginary) {
  return new_value([=] { return Value::complex({real, imaginary}); });
}

espalier_value* espalier_new_string(const char* data, size_t size) {
  if (data == nullptr) return size == 0 ? espalier_new_string("", 0) : nullptr;
  return new_value([=] { return Value::string(std::string(data, size)); });
}

espalier_value* espalier_new_bytes(const void* data, size_t size) {
  if (data == nullptr && size != 0) return nullptr;
  return new_value([=] {
    const auto bytes = c::bytes_of(data, size);
    return Value::bytes({bytes.begin(), bytes.end()});
  });
}

espalier_value* espalier_new_container(espalier_kind kind) {
  // A program may pass a number that the enumeration lacks, which C++ must not read as one.
  std::underlying_type_t<espalier_kind> number = 0;
  static_assert(sizeof number == sizeof kind);
  std::memcpy(&number, &kind, sizeof kind);
  if (number < ESPALIER_DICT || number > ESPALIER_RECORD) return nullptr;
  return new_value([=] { return Value::container(static_cast<Kind>(number)); });
}

espalier_status espalier_new_tensor(const espalier_tensor_spec* spec, espalier_value** out,
                                    espalier_error** error) {
  return guarded(error, Arguments().need(spec), [&]() -> Result<void> {
    const auto taken = c::take(spec);
    std::shared_ptr<const void> keeper;
    if (taken && taken->release != nullptr) {
      keeper = std::shared_ptr<void>(taken->context, taken->release);
    }
    if (!taken) {
      // A newer program's struct has these members in the same place.
      if (spec->size > sizeof *spec && spec->release != nullptr) spec->release(spec->context);
      return propagate(taken);
    }
    if (auto ok = Arguments().result(out).check(); !ok) return ok;  // `keeper` releases
    auto tensor = c::make_tensor(*taken, std::move(keeper));
    if (!tensor) return propagate(tensor);
    *out = new espalier_value{Value::tensor(std::move(*tensor))};
    return {};
  });
}

espalier_status espalier_add_text(espalier_value* container, const char* key, size_t key_size,
                                  espalier_value* child, espalier_error** error) {
  const auto add = [&](Value& parent, Value value) -> Result<void> {
    if (auto ok = c::check_container(parent, true); !ok) return ok;
    parent.add(std::string(key_size == 0 ? "" : key, key_size), std::move(value));
    return {};
  };
  return take_child(container, child, Arguments().need({key, key_size}), error, add);
}

espalier_status espalier_add_int(espalier_value* container, int64_t key, espalier_value* child,
                                 espalier_error** error) {
  return take_child(container, child, {}, error, [&](Value& parent, Value value) -> Result<void> {
    if (auto ok = c::check_container(parent, true); !ok) return ok;
    parent.add(key, std::move(value));
    return {};
  });
}

espalier_status espalier_add(espalier_value* container, espalier_value* child,
                             espalier_error** error) {
  return take_child(container, child, {}, error, [&](Value& parent, Value value) -> Result<void> {
    if (auto ok = c::check_container(parent, false); !ok) return ok;
    parent.add(std::move(value));
    return {};
  });
}

espalier_status espalier_set(espalier_value* root, const char* path, espalier_value* child,
                             espalier_error** error) {
  return take_child(root, child, Arguments().need(path), error,
                    [&](Value& parent, Value value) { return parent.set(path, std::move(value)); });
}

espalier_status espalier_erase(espalier_value* root, const char* path, espalier_error** error) {
  return guarded(error, Arguments().need_value(root).need(path),
                 [&] { return root->value.erase(path); });
}

espalier_status espalier_set_label(espalier_value* value, const char* text, size_t size,
                                   espalier_error** error) {
  const Arguments needed = Arguments().need_value(value).need({text, size});
  return guarded(error, needed, [&]() -> Result<void> {
    std::string label(size == 0 ? "" : text, size);
    value->value = std::move(value->value).labelled(std::move(label));
    return {};
  });
}

espalier_value* espalier_value_copy(const espalier_value* value) {
  return value == nullptr ? nullptr : new_value([=] { return value->value; });
}

void espalier_value_free(espalier_value* value) { delete value; }

espalier_status espalier_load(const espalier_file* file, espalier_node node, int lazily,
                              espalier_value** out, espalier_error** error) {
  return guarded(error, Arguments().need(file).result(out), [&]() -> Result<void> {
    const auto found = c::node_of(file, node);
    if (!found) return propagate(found);
    auto value = lazily != 0 ? file->file.load_lazily(*found) : file->file.load(*found);
    if (!value) return propagate(value);
    *out = new espalier_value{std::move(*value)};
    return {};
  });
}

espalier_status espalier_load_with(const espalier_file* file, espalier_node node,
                                   const espalier_read_options* options, espalier_value** out,
                                   espalier_error** error) {
  return guarded(error, Arguments().need(file).result(out), [&]() -> Result<void> {
    const auto found = c::node_of(file, node);
    if (!found) return propagate(found);
    const auto how = c::options_of(options);
    if (!how) return propagate(how);
    auto value = file->file.load(*found, *how);
    if (!value) return propagate(value);
    *out = new espalier_value{std::move(*value)};
    return {};
  });
}
