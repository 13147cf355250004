#include "espalier/foreign/torch/torch_tree.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/detail/catalog.h"
#include "espalier/dtype.h"
#include "espalier/foreign/torch/legacy_file.h"
#include "espalier/foreign/torch/torch_types.h"

namespace espalier {

namespace {

// An attacker's pickle may make a tensor from a list, and append to the list afterwards.
constexpr std::string_view kChanged = "its size, stride or metadata may have changed since";

}  // namespace

std::optional<PickleShape> TorchTree::shape_global(PickleGlobal global) {
  if (global.module != "torch") return std::nullopt;
  if (!find_torch_type(global.name)) return std::nullopt;
  return text(name_of(global), "torch.dtype");
}

std::optional<PickleShape> TorchTree::shape_call(PickleGlobal function, PickleRef ref,
                                                 std::span<const PickleRef> args) {
  const auto [module, name] = function;
  if (module == "torch._utils") return shape_utils(name, ref, args);
  if (module == "torch._tensor" && name == "_rebuild_from_type_v2" && args.size() == 4) {
    // What args[0](*args[2]) gives, as an instance of the type args[1], with the state args[3].
    const auto rebuild = global_of(args[0]);
    const auto type = global_of(args[1]);
    // PyTorch names its own functions alone, and read_tensor() knows the arguments of those.
    if (!rebuild || !type || rebuild->module != "torch._utils") return std::nullopt;
    const auto inner = shape_utils(rebuild->name, ref, tuple(args[2]));
    if (!inner) return std::nullopt;
    return with_state(*inner, args[3], name_of(*type));
  }
  if (module == "torch" && name == "Size" && args.size() == 1 && is_sequence(args[0], ref)) {
    return elements(Kind::kTuple, args[0], "torch.Size");
  }
  if (module == "torch" && name == "device" && (args.size() == 1 || args.size() == 2)) {
    const auto type = text_of(args[0]);
    const auto number = args.size() == 2 ? integer(args[1]) : std::nullopt;
    if (!type || (args.size() == 2 && !number)) return std::nullopt;
    return text(number ? keep(std::string(*type) + ":" + std::to_string(*number)) : *type,
                "torch.device");
  }
  if (module == "torch.serialization" && name == "_get_layout" && args.size() == 1) {
    if (const auto layout = text_of(args[0])) return text(*layout, "torch.layout");
  }
  if (module == "torch.jit._pickle") {
    if (name == "restore_type_tag" && args.size() == 2) {
      const auto tag = text_of(args[1]);
      if (tag) return labelled(shape_of_ref(args[0]), *tag);
    }
    const bool is_list = name == "build_intlist" || name == "build_doublelist" ||
                         name == "build_boollist" || name == "build_tensorlist";
    if (is_list && args.size() == 1) return shape_of_ref(args[0]);
  }
  // Files from before torch 0.2: an empty tensor, filled by BUILD.
  if (torch_class_dtype(function, "Tensor") && graph().state(ref) != nullptr) {
    PickleShape shape = tensor(ref);
    shape.has_state = true;
    return shape;
  }
  return std::nullopt;
}

std::optional<PickleShape> TorchTree::shape_utils(std::string_view name, PickleRef ref,
                                                  std::span<const PickleRef> args) {
  if ((name == "_rebuild_tensor_v2" || name == "_rebuild_tensor_v3") && args.size() >= 6) {
    const auto is_tracked = boolean(args[4]);
    if (!is_tracked) return std::nullopt;
    return tensor(ref, *is_tracked ? "torch.Tensor[requires_grad]" : std::string_view());
  }
  if (name == "_rebuild_tensor" && args.size() == 4) return tensor(ref);
  if (name == "_rebuild_meta_tensor_no_storage" && args.size() == 4) return tensor(ref);
  if (name == "_rebuild_parameter" && args.size() == 3) return shape_parameter(args);
  if (name == "_rebuild_parameter_with_state" && args.size() == 4) {
    const auto parameter = shape_parameter(args);
    if (parameter) return with_state(*parameter, args[3], parameter->label);
  }
  if (name == "_rebuild_qtensor" && args.size() >= 6) return shape_quantised(args, ref);
  if (name == "_rebuild_sparse_tensor" && args.size() == 2) return shape_sparse(args);
  return std::nullopt;
}

std::optional<PickleShape> TorchTree::shape_parameter(std::span<const PickleRef> args) {
  const auto is_trained = boolean(args[1]);
  if (args[0].is_literal() || !is_trained) return std::nullopt;
  PickleShape shape = shape_of_ref(args[0]);
  shape.label = *is_trained ? std::string_view("torch.nn.Parameter")
                            : std::string_view("torch.nn.Parameter[frozen]");
  return shape;
}

// A value with attributes: a record of both.
PickleShape TorchTree::with_state(PickleShape shape, PickleRef state, std::string_view label) {
  const PickleType type = graph().type(state);
  const bool is_empty =
      type == PickleType::kNone ||
      (!state.is_literal() && type == PickleType::kDict && !graph().has_elements(state));
  if (is_empty) {
    shape.label = label;
    return shape;
  }
  const Field named[] = {{"data", made(shape)}, {"state", state}};
  return fields(label, named);
}

PickleShape TorchTree::shape_quantised(std::span<const PickleRef> args, PickleRef ref) {
  const auto parameters = tuple(args[4]);
  std::vector<Field> named = {{"data", made(tensor(ref))}};
  // (scheme, scale, zero_point) or (scheme, scales, zero_points, axis).
  const bool is_by_channel = parameters.size() == 4;
  constexpr std::string_view kWhole[] = {"qscheme", "scale", "zero_point"};
  constexpr std::string_view kByChannel[] = {"qscheme", "scales", "zero_points", "axis"};
  for (std::size_t i = 0; i < parameters.size() && i < 4; ++i) {
    if (!is_by_channel && i == 3) break;
    named.push_back({is_by_channel ? kByChannel[i] : kWhole[i], parameters[i]});
  }
  return fields("torch.qtensor", named);
}

std::optional<PickleShape> TorchTree::shape_sparse(std::span<const PickleRef> args) {
  const auto parts = tuple(args[1]);
  std::string_view layout;
  if (const PickleShape shape = shape_of_ref(args[0]); shape.label == "torch.layout") {
    layout = shape.text;
  }
  if (layout == "torch.sparse_coo" && parts.size() >= 3) {
    std::vector<Field> named = {{"indices", parts[0]}, {"values", parts[1]}, {"size", parts[2]}};
    if (parts.size() > 3) named.push_back({"is_coalesced", parts[3]});
    return fields("torch.sparse_coo", named);
  }
  const bool is_by_row = layout == "torch.sparse_csr" || layout == "torch.sparse_bsr";
  const bool is_by_column = layout == "torch.sparse_csc" || layout == "torch.sparse_bsc";
  if ((is_by_row || is_by_column) && parts.size() == 4) {
    const Field named[] = {
        {is_by_row ? std::string_view("crow_indices") : std::string_view("ccol_indices"), parts[0]},
        {is_by_row ? std::string_view("col_indices") : std::string_view("row_indices"), parts[1]},
        {"values", parts[2]},
        {"size", parts[3]}};
    return fields(layout, named);
  }
  return std::nullopt;
}

PickleShape TorchTree::shape_persistent(PickleRef ref) { return tensor(ref, "torch.storage"); }

std::optional<TorchTree::Storage> TorchTree::storage(PickleRef ref) {
  const auto foreign = [&] {
    refuse("the pickle refers to an object outside it that is not a torch storage");
    return std::nullopt;
  };
  if (!ref.is_literal() && graph().type(ref) == PickleType::kCall) return inner_storage(ref);
  if (graph().type(ref) != PickleType::kPersistent) return foreign();
  const auto parts = tuple(graph().persistent_id(ref));
  if (parts.size() < 5 || !equals_text(parts[0], "storage")) return foreign();
  const auto cls = global_of(parts[1]);
  const auto key = text_of(parts[2]);
  const auto numel = integer(parts[4]);
  if (!cls || !key || !text_of(parts[3]) || !numel || *numel < 0) return foreign();
  Storage found;
  found.is_big_endian = is_big_endian_;
  found.key = *key;
  found.numel = static_cast<std::uint64_t>(*numel);
  found.is_meta = equals_text(parts[3], "meta");
  found.dtype = torch_class_dtype(*cls, "Storage");
  if (!found.dtype && !is_untyped_storage(*cls)) found.is_unknown = true;
  if (found.is_meta || found.is_unknown) return found;
  auto place = storages_.find(*key);
  if (!place) {
    refuse(std::move(place.error().message), place.error().code);
    return std::nullopt;
  }
  found.place = *place;
  const std::uint64_t width = found.dtype ? dtype_bits(*found.dtype) / 8 : 1;
  const auto bytes = checked_mul(found.numel, width);
  if (!bytes || *bytes != found.place.length) {
    refuse("storage " + std::string(*key) + " has " + counted(found.place.length, "byte") +
           " and should have " + counted(found.numel, "element") + " of " + counted(width, "byte"));
    return std::nullopt;
  }
  // Until 0.4, a storage could be a part of another: (key, first element, elements).
  if (parts.size() < 6 || graph().type(parts[5]) != PickleType::kTuple) return found;
  const auto view = tuple(parts[5]);
  const auto first = view.size() == 3 ? integer(view[1]) : std::nullopt;
  const auto count = view.size() == 3 ? integer(view[2]) : std::nullopt;
  // Below 0, they are beyond all storages once they have no sign.
  if (!first || !count ||
      !range_fits(static_cast<std::uint64_t>(*first), static_cast<std::uint64_t>(*count),
                  found.numel)) {
    refuse("a part of storage " + std::string(*key) + " goes beyond it");
    return std::nullopt;
  }
  found.numel = static_cast<std::uint64_t>(*count);
  found.place.offset += static_cast<std::uint64_t>(*first) * width;
  found.place.length = found.numel * width;
  return found;
}

// A plain pickle has the whole file of torch.save() in place of each storage.
std::optional<TorchTree::Storage> TorchTree::inner_storage(PickleRef ref) {
  const auto unknown = [] {
    Storage storage;
    storage.is_unknown = true;
    return storage;
  };
  const auto function = global_of(graph().call(ref).callable);
  const auto args = args_of(ref);
  const bool is_file = function && function->module == "torch.storage" &&
                       function->name == "_load_from_bytes" && args.size() == 1;
  if (!is_file) return unknown();
  const auto bytes = bytes_of(args[0]);
  if (!bytes || !looks_like_legacy_torch(*bytes)) return unknown();
  const auto file = parse_legacy(*bytes, bytes->size(), 0);
  // Many calls may share the bytes: only the storage itself costs nothing.
  const bool is_one = file && file->storages.size() == 1;
  count_steps(is_one ? file->storages[0].offset : bytes->size());
  if (!is_one) return unknown();
  const LegacyStorage& inner = file->storages[0];
  // It may hold calls of its own, which torch would make.
  NamedCode within(is_data_global);
  if (auto named = within.add(file->graph); !named) {
    refuse(std::move(named.error().message), named.error().code);
    return std::nullopt;
  }
  if (file->graph.first_call() || !within.empty()) {
    (void)code().add(file->graph, path());  // as above
    return unknown();
  }
  const auto object = file->graph.root();
  if (file->graph.type(object) != PickleType::kPersistent) return unknown();
  std::vector<PickleRef> parts;
  file->graph.elements(file->graph.persistent_id(object), parts);
  const auto data = bytes->subspan(static_cast<std::size_t>(inner.data_offset()),
                                   static_cast<std::size_t>(inner.length()));
  if (!check_legacy_count(inner, bytes->subspan(static_cast<std::size_t>(inner.offset), 8),
                          file->is_big_endian, 0)) {
    return unknown();
  }
  const auto place = storages_.keep(data);
  if (!place) {
    refuse(place.error().message, place.error().code);
    return std::nullopt;
  }
  Storage found;
  found.key = "inside the pickle";
  found.numel = inner.numel;
  found.place = *place;
  if (parts.size() >= 5 && file->graph.type(parts[1]) == PickleType::kGlobal) {
    found.dtype = torch_class_dtype(file->graph.global(parts[1]), "Storage");
  }
  found.is_big_endian = file->is_big_endian;
  explain_call(ref);
  return found;
}

bool TorchTree::read_dtype(PickleRef ref, ForeignTensor& tensor, bool& is_pairs,
                           std::string& missing) {
  const auto global = global_of(ref);
  if (global && global->module == "torch") {
    if (const auto type = find_torch_type(global->name)) {
      tensor.dtype = type->dtype;
      tensor.block = type->block;
      is_pairs = type->is_pairs;
      return true;
    }
  }
  missing = "its dtype is unknown";
  return false;
}

// The layout over a storage: checks that all that it reaches is there.
bool TorchTree::read_layout(PickleRef storage_ref, std::int64_t first, PickleRef size,
                            PickleRef stride, ForeignTensor& tensor, std::string& missing,
                            bool has_dtype, bool is_pairs) {
  if (is_list(size) || is_list(stride)) return missing = kChanged, false;
  if (!read_sizes(size, tensor.shape) || !read_sizes(stride, tensor.strides) || first < 0 ||
      tensor.shape.size() != tensor.strides.size()) {
    refuse("a tensor's size, stride or offset is malformed");
    return false;
  }
  const auto found = storage(storage_ref);
  if (!found) return false;
  if (found->is_unknown) return missing = "the class of its storage is unknown", false;
  if (!has_dtype && !found->dtype) return missing = "its storage has no dtype", false;
  if (!has_dtype) tensor.dtype = *found->dtype;
  if (found->is_meta) return missing.clear(), false;
  const std::uint64_t width = tensor.dtype == DType::kOpaque
                                  ? tensor.block.bytes
                                  : std::max<std::uint64_t>(dtype_bits(tensor.dtype) / 8, 1);
  const auto reached = reached_elements(tensor);
  const auto end =
      reached ? checked_add(static_cast<std::uint64_t>(first), *reached) : std::nullopt;
  const auto bytes = end ? checked_mul(*end, width) : std::nullopt;
  if (!bytes || (*reached > 0 && *bytes > found->place.length)) {
    refuse("storage " + std::string(found->key) + " has " + counted(found->place.length, "byte") +
           " and the tensor needs " +
           (bytes ? std::to_string(*bytes) : std::string("more than 2^64")));
    return false;
  }
  tensor.file = found->place.file;
  // An empty tensor may stand anywhere.
  tensor.offset = found->place.offset +
                  (*reached > 0 ? static_cast<std::uint64_t>(first) * width : std::uint64_t{0});
  const bool needs_order = width > 1 && tensor.dtype != DType::kOpaque;
  if (found->is_big_endian && tensor.dtype == DType::kOpaque && width > 1) {
    return missing = "its elements are big-endian and of a type unknown here", false;
  }
  if (tensor.dtype == DType::kOpaque && tensor.flags != 0) {
    return missing = "it is conjugated or negated, and its elements are of a type unknown here",
           false;
  }
  if (found->is_big_endian && needs_order) tensor.flags |= kStorageSwapped;
  const bool has_form = is_packed(tensor);
  if (!has_form && (is_pairs || tensor.dtype == DType::kOpaque)) {
    return missing = "its elements are strided and have no whole bytes", false;
  }
  give_axis(tensor);
  if (is_pairs) {  // The last axis counts bytes, of two elements each.
    tensor.strides.clear();
    if (tensor.shape.empty()) {
      tensor.shape.push_back(2);
    } else if (const auto twice = checked_mul(tensor.shape.back(), 2)) {
      tensor.shape.back() = *twice;
    }
  }
  return true;
}

bool TorchTree::read_rebuilt(std::string_view name, PickleRef ref, std::span<const PickleRef> args,
                             ForeignTensor& tensor, std::string& missing) {
  const bool is_third = name == "_rebuild_tensor_v3";
  const bool is_quantised = name == "_rebuild_qtensor";
  bool is_pairs = false;
  // A class in place of a function, whose arguments were not looked at, has any number of them.
  const std::size_t least = is_third ? 7 : 4;
  if (args.size() < least) return missing = "its arguments are malformed", false;
  if (is_third && !read_dtype(args[6], tensor, is_pairs, missing)) {
    read_sizes(args[2], tensor.shape);
    return false;
  }
  // The other functions have the metadata of a lazily negated or conjugated tensor at the end.
  const std::size_t metadata = is_third ? 7 : 6;
  if (!is_quantised && args.size() > metadata && !args[metadata].is_literal()) {
    if (!is_settled(args[metadata], ref)) return missing = kChanged, false;
    const auto pairs = elements_of(args[metadata]);
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const auto key = text_of(pairs[i]);
      if (!boolean(pairs[i + 1]).value_or(false)) continue;
      if (key == "neg") tensor.flags |= kStorageNegated;
      if (key == "conj") tensor.flags |= kStorageConjugated;
      if (key != "neg" && key != "conj") return missing = "it has unknown metadata", false;
    }
  }
  const auto first = integer(args[1]);
  if (!first) {
    refuse("a tensor's size, stride or offset is malformed");
    return false;
  }
  return read_layout(args[0], *first, args[2], args[3], tensor, missing, is_third, is_pairs);
}

bool TorchTree::read_meta(std::span<const PickleRef> args, ForeignTensor& tensor) {
  bool is_pairs = false;
  std::string missing;
  read_dtype(args[0], tensor, is_pairs, missing);
  read_sizes(args[1], tensor.shape);
  return false;
}

bool TorchTree::read_tensor(PickleRef ref, ForeignTensor& tensor, std::string& missing) {
  if (graph().type(ref) == PickleType::kPersistent) {
    const auto found = storage(ref);
    if (!found) return false;
    if (found->is_unknown) return missing = "the class of this storage is unknown", false;
    tensor.dtype = found->dtype.value_or(DType::kU8);
    tensor.shape = {found->numel};
    tensor.file = found->place.file;
    tensor.offset = found->place.offset;
    if (found->is_big_endian && dtype_bits(tensor.dtype) > 8) tensor.flags |= kStorageSwapped;
    return !found->is_meta;
  }
  const auto function = global_of(graph().call(ref).callable);
  const auto args = args_of(ref);
  if (!function) return missing = "it is made in an unknown way", false;
  if (function->name == "_rebuild_from_type_v2") {
    const auto rebuild = global_of(args[0]);
    const auto inner = tuple(args[2]);
    if (!rebuild) return missing = "it is made in an unknown way", false;
    if (rebuild->name == "_rebuild_meta_tensor_no_storage") return read_meta(inner, tensor);
    return read_rebuilt(rebuild->name, ref, inner, tensor, missing);
  }
  if (function->name == "_rebuild_meta_tensor_no_storage") return read_meta(args, tensor);
  if (torch_class_dtype(*function, "Tensor")) {
    const auto state = tuple(*graph().state(ref));
    if (state.size() == 4) {
      if (const auto first = integer(state[1])) {
        return read_layout(state[0], *first, state[2], state[3], tensor, missing, false, false);
      }
    }
    return missing = "its state is malformed", false;
  }
  if (function->module != "torch._utils") return PickleTree::read_tensor(ref, tensor, missing);
  return read_rebuilt(function->name, ref, args, tensor, missing);
}

std::optional<PickleTree::Place> TorchTree::place_bytes(ByteSpan bytes) {
  const auto place = storages_.keep(bytes);
  if (!place) {
    refuse(place.error().message, place.error().code);
    return std::nullopt;
  }
  return Place{place->file, place->offset};
}

}  // namespace espalier
