#include "espalier/foreign/zarr/array.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/json_tree.h"
#include "espalier/base/little_endian.h"
#include "espalier/foreign/common/json_text.h"
#include "espalier/foreign/numpy/numpy_type.h"
#include "espalier/tree/encode_elements.h"

namespace espalier {
namespace {

constexpr std::uint32_t kMostDepth = 64;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;
constexpr std::string_view kResave =
    "; read it with tensorstore and save it with compression by zstd, or with espalier.save()";

struct ZarrType {
  std::string_view name;
  DType dtype;
  std::uint32_t width;
  bool is_wider = false;  // than the type that the name means
};
constexpr ZarrType kTypes[] = {
    {"bool", DType::kBool, 1},
    {"int8", DType::kI8, 1},
    {"uint8", DType::kU8, 1},
    {"int16", DType::kI16, 2},
    {"uint16", DType::kU16, 2},
    {"int32", DType::kI32, 4},
    {"uint32", DType::kU32, 4},
    {"int64", DType::kI64, 8},
    {"uint64", DType::kU64, 8},
    {"float16", DType::kF16, 2},
    {"bfloat16", DType::kBF16, 2},
    {"float32", DType::kF32, 4},
    {"float64", DType::kF64, 8},
    {"complex64", DType::kC64, 8},
    {"complex128", DType::kC128, 16},
    {"float8_e4m3fn", DType::kF8E4M3FN, 1},
    {"float8_e5m2", DType::kF8E5M2, 1},
    {"float8_e4m3fnuz", DType::kF8E4M3FNUZ, 1},
    {"float8_e5m2fnuz", DType::kF8E5M2FNUZ, 1},
    {"float8_e8m0fnu", DType::kF8E8M0FNU, 1},
    // An element in each byte.
    {"int4", DType::kI8, 1, true},
    {"uint4", DType::kU8, 1, true},
    {"int2", DType::kI8, 1, true},
    {"uint2", DType::kU8, 1, true},
    // Without a counterpart that has a byte for each.
    {"float4_e2m1fn", DType::kOpaque, 1, true},
    {"float8_e3m4", DType::kOpaque, 1},
    {"float8_e4m3", DType::kOpaque, 1},
    {"float8_e4m3b11fnuz", DType::kOpaque, 1},
};

tl::unexpected<Error> bad_array(const std::string& why) {
  return fail(ErrorCode::kForeignInvalid, "its metadata are not those of a zarr array: " + why);
}

tl::unexpected<Error> unread_codec(std::string_view name) {
  return fail(ErrorCode::kUnsupportedCodec, "it is coded by '" + std::string(name) +
                                                "', which is not read" + std::string(kResave));
}

Result<void> set_type(ZarrArray& array, std::string_view name) {
  for (const ZarrType& type : kTypes) {
    if (type.name != name) continue;
    array.dtype = type.dtype;
    array.width = type.width;
    if (type.dtype == DType::kOpaque) array.block = {type.name, 1, type.width};
    if (type.is_wider && type.dtype != DType::kOpaque) array.wider_than = type.name;
    return {};
  }
  return fail(ErrorCode::kUnsupportedFeature, "its elements are of the dtype '" +
                                                  std::string(name) + "', which is not read" +
                                                  std::string(kResave));
}

std::optional<std::vector<std::uint64_t>> numbers_of(std::optional<JsonRef> json) {
  if (!json || !json->is_array()) return std::nullopt;
  std::vector<std::uint64_t> numbers;
  for (const JsonRef element : *json) {
    const auto number = element.uint64();
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<std::uint64_t> product(const std::vector<std::uint64_t>& factors,
                                     std::uint64_t times) {
  std::optional<std::uint64_t> all = times;
  for (const std::uint64_t factor : factors) {
    if (all) all = checked_mul(*all, factor);
  }
  return all && *all <= kMostBytes ? all : std::nullopt;
}

// Checks what both versions say of shapes, once the type is set.
Result<void> check_shapes(const ZarrArray& array, const Limits& limits) {
  const auto& chunk = array.grid.chunk;
  if (array.shape.size() != chunk.size()) return bad_array("the chunks have other axes");
  if (array.shape.size() > limits.rank) {
    return fail(ErrorCode::kLimitExceeded, "it has more axes than Limits::rank allows");
  }
  if (std::find(chunk.begin(), chunk.end(), 0u) != chunk.end()) {
    return bad_array("a chunk without elements");
  }
  // The product of an empty array's other axes must fit, too.
  std::vector<std::uint64_t> axes = array.shape;
  std::replace(axes.begin(), axes.end(), std::uint64_t{0}, std::uint64_t{1});
  if (!product(axes, array.width) || !product(chunk, array.width)) {
    return fail(ErrorCode::kLimitExceeded, "it or a chunk of it has more than 2^62 bytes");
  }
  std::uint64_t chunks = 1;
  for (const std::uint64_t count : array.counts()) {
    const auto all = checked_mul(chunks, count);
    if (!all || *all > limits.nodes) {
      return fail(ErrorCode::kLimitExceeded, "it has more chunks than Limits::nodes allows");
    }
    chunks = *all;
  }
  return {};
}

// A number of a fill value: JSON's, or "NaN", "Infinity", "-Infinity".
std::optional<double> real_of(JsonRef json) {
  if (const auto number = json.int64()) return static_cast<double>(*number);
  if (const auto number = json.uint64()) return static_cast<double>(*number);
  if (const auto number = json.real()) return number;
  const std::string_view text = text_of(json);
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

// The bytes of an element that "0x7fc0" names: its bits as a number.
bool set_bits(std::string_view digits, MutableByteSpan to) {
  if (digits.size() != 2 * to.size()) return false;
  for (std::size_t i = 0; i < to.size(); ++i) {
    unsigned value = 0;
    const char* const begin = digits.data() + 2 * (to.size() - 1 - i);
    const auto [end, error] = std::from_chars(begin, begin + 2, value, 16);
    if (error != std::errc{} || end != begin + 2) return false;
    to[i] = static_cast<std::byte>(value);
  }
  return true;
}

// One number of a fill value, little-endian.
bool set_number(DType dtype, JsonRef json, MutableByteSpan to) {
  const std::string_view text = text_of(json);
  if (text.starts_with("0x")) return set_bits(text.substr(2), to);
  if (const auto flag = json.boolean()) {
    to[0] = static_cast<std::byte>(*flag ? 1 : 0);
    return to.size() == 1;
  }
  if (!dtype_is_floating(dtype)) {
    const auto small = json.int64();
    const auto large = json.uint64();
    // numpy writes integers of old arrays as 0.0, too.
    const auto real = json.real();
    if (!small && !large && (!real || *real != 0)) return false;
    const std::uint64_t bits = small ? static_cast<std::uint64_t>(*small) : large.value_or(0);
    std::memcpy(to.data(), &bits, std::min(to.size(), sizeof(bits)));
    return true;
  }
  const auto real = real_of(json);
  if (!real) return false;
  if (dtype == DType::kF64) {
    store_le(to.data(), *real);
  } else if (can_encode(dtype)) {
    encode_elements(dtype, {&*real, 1}, to);
  } else {
    return *real == 0 && !std::signbit(*real);
  }
  return true;
}

Result<void> set_fill(ZarrArray& array, std::optional<JsonRef> json) {
  array.fill.assign(array.width, std::byte{0});
  // tensorstore takes none for zeros.
  if (!json || json->is_null()) return {};
  const MutableByteSpan fill(array.fill);
  const bool is_complex = array.dtype == DType::kC64 || array.dtype == DType::kC128;
  bool is_set = false;
  if (is_complex && json->is_array() && json->size() == 2) {
    const DType part = array.dtype == DType::kC64 ? DType::kF32 : DType::kF64;
    const auto first = json->begin();
    auto second = first;
    ++second;
    is_set = set_number(part, *first, fill.first(fill.size() / 2)) &&
             set_number(part, *second, fill.subspan(fill.size() / 2));
  } else if (array.dtype == DType::kOpaque) {
    is_set = real_of(*json) == 0.0;
  } else {
    const DType part = array.dtype == DType::kC64    ? DType::kF32
                       : array.dtype == DType::kC128 ? DType::kF64
                                                     : array.dtype;
    is_set = set_number(part, *json, is_complex ? fill.first(fill.size() / 2) : fill);
  }
  if (!is_set) return bad_array("the fill_value is no element of its dtype");
  if (array.is_swapped) {
    const std::size_t part = is_complex ? fill.size() / 2 : fill.size();
    for (std::size_t at = 0; at < fill.size(); at += part) {
      std::reverse(array.fill.begin() + static_cast<std::ptrdiff_t>(at),
                   array.fill.begin() + static_cast<std::ptrdiff_t>(at + part));
    }
  }
  return {};
}

// --- Codecs of version 3 -------------------------------------------------------------------------

struct Coding {
  std::string_view name;
  std::optional<JsonRef> configuration;
};

Result<std::vector<Coding>> codecs_of(std::optional<JsonRef> json) {
  if (!json || !json->is_array()) return bad_array("it has no list of codecs");
  std::vector<Coding> codecs;
  for (const JsonRef each : *json) {
    // A codec without a configuration may be its name alone.
    Coding codec{each.text().value_or(text_of(each.member("name"))), each.member("configuration")};
    if (codec.name.empty()) return bad_array("a codec has no name");
    codecs.push_back(codec);
  }
  return codecs;
}

std::optional<JsonRef> option(const Coding& codec, std::string_view name) {
  return codec.configuration ? codec.configuration->member(name) : std::nullopt;
}

// Whether the codecs of an index are what all programs write: bytes, and maybe a CRC-32C.
Result<bool> has_index_crc(std::optional<JsonRef> json) {
  const auto codecs = codecs_of(json);
  if (!codecs) return propagate(codecs);
  const bool is_known = !codecs->empty() && codecs->size() <= 2 && (*codecs)[0].name == "bytes" &&
                        text_of(option((*codecs)[0], "endian")) != "big" &&
                        (codecs->size() == 1 || (*codecs)[1].name == "crc32c");
  if (!is_known) return unread_codec("sharding_indexed with an index in an unusual form");
  return codecs->size() == 2;
}

class CodecReader {
 public:
  explicit CodecReader(ZarrArray& array) : array_(array) {}

  // Reads the codecs of chunks whose shape, along the array's axes, is `grid.chunk`.
  Result<void> read(ZarrGrid& grid, std::optional<JsonRef> json, unsigned depth) {
    const auto codecs = codecs_of(json);
    if (!codecs) return propagate(codecs);
    std::size_t i = 0;
    for (; i < codecs->size() && (*codecs)[i].name == "transpose"; ++i) {
      if (auto ok = transpose(grid, (*codecs)[i]); !ok) return ok;
    }
    if (i == codecs->size()) return bad_array("no codec makes bytes of its elements");
    const Coding& to_bytes = (*codecs)[i++];
    if (to_bytes.name == "sharding_indexed") {
      if (i < codecs->size()) return unread_codec((*codecs)[i].name);
      return shard(grid, to_bytes, depth);
    }
    if (to_bytes.name != "bytes") return unread_codec(to_bytes.name);
    const bool is_swapped = array_.width > 1 && text_of(option(to_bytes, "endian")) == "big";
    array_.is_swapped = is_swapped;
    for (; i < codecs->size(); ++i) {
      const std::string_view name = (*codecs)[i].name;
      if (name == "crc32c") {
        bool& has = grid.packing == ZarrPacking::kNone ? grid.has_inner_crc : grid.has_outer_crc;
        if (has) return unread_codec("crc32c twice");
        has = true;
        continue;
      }
      if (name != "zstd" && name != "gzip") return unread_codec(name);
      if (grid.packing != ZarrPacking::kNone) return unread_codec("two codecs that compress");
      grid.packing = name == "zstd" ? ZarrPacking::kZstd : ZarrPacking::kGzip;
    }
    return {};
  }

 private:
  Result<void> transpose(ZarrGrid& grid, const Coding& codec) {
    const auto order = numbers_of(option(codec, "order"));
    if (!order || order->size() != grid.order.size()) return bad_array("a transpose has no order");
    std::vector<std::uint32_t> all;
    std::vector<bool> is_named(order->size());
    for (const std::uint64_t axis : *order) {
      if (axis >= order->size() || is_named[static_cast<std::size_t>(axis)]) {
        return bad_array("the order of a transpose is none");
      }
      is_named[static_cast<std::size_t>(axis)] = true;
      all.push_back(grid.order[static_cast<std::size_t>(axis)]);
    }
    grid.order = std::move(all);
    return {};
  }

  Result<void> shard(ZarrGrid& grid, const Coding& codec, unsigned depth) {
    constexpr unsigned kMostShards = 2;
    if (depth >= kMostShards) return unread_codec("sharding_indexed inside of two others");
    const auto shape = numbers_of(option(codec, "chunk_shape"));
    if (!shape || shape->size() != grid.chunk.size()) return bad_array("a shard has other axes");
    ZarrGrid inner{.chunk = grid.chunk, .order = grid.order};
    std::uint64_t count = 1;
    for (std::size_t i = 0; i < shape->size(); ++i) {
      const std::uint64_t whole = grid.chunk[grid.order[i]];
      if ((*shape)[i] == 0 || whole % (*shape)[i] != 0) {
        return bad_array("the chunks of a shard do not fill it");
      }
      inner.chunk[grid.order[i]] = (*shape)[i];
      count *= whole / (*shape)[i];
    }
    constexpr std::uint64_t kMostInShard = 1 << 24;
    if (count > kMostInShard) {
      return fail(ErrorCode::kLimitExceeded, "a shard of it has more than 2^24 chunks");
    }
    const std::string_view location = text_of(option(codec, "index_location"));
    if (!location.empty() && location != "end" && location != "start") {
      return bad_array("the index of a shard is at no known place");
    }
    grid.is_index_first = location == "start";
    const auto has_crc = has_index_crc(option(codec, "index_codecs"));
    if (!has_crc) return propagate(has_crc);
    grid.has_index_crc = *has_crc;
    if (auto ok = read(inner, option(codec, "codecs"), depth + 1); !ok) return ok;
    grid.inner = std::make_shared<const ZarrGrid>(std::move(inner));
    return {};
  }

  ZarrArray& array_;
};

Result<JsonTree> parse_object(std::string_view text) {
  auto json = JsonTree::parse(text, kMostDepth, JsonDialect::kOfPython);
  if (!json) return bad_array("they are not JSON");
  if (!json->root().is_object()) return bad_array("they are no JSON object");
  return json;
}

std::vector<std::uint32_t> plain_order(std::size_t rank) {
  std::vector<std::uint32_t> order(rank);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

}  // namespace

std::uint64_t ZarrArray::elements() const {
  std::uint64_t all = 1;
  for (const std::uint64_t axis : shape) all *= axis;
  return all;
}

std::vector<std::uint64_t> ZarrArray::counts() const {
  std::vector<std::uint64_t> counts(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    counts[i] = shape[i] / grid.chunk[i] + (shape[i] % grid.chunk[i] != 0 ? 1 : 0);
  }
  return counts;
}

std::vector<std::uint64_t> grid_position(const std::vector<std::uint64_t>& counts,
                                         std::uint64_t number) {
  std::vector<std::uint64_t> position(counts.size());
  for (std::size_t i = counts.size(); i-- > 0;) {
    position[i] = number % counts[i];
    number /= counts[i];
  }
  return position;
}

std::string ZarrArray::chunk_name(std::uint64_t number) const {
  std::string name = has_c ? "c" : "";
  if (shape.empty()) return has_c ? name : "0";
  for (const std::uint64_t each : grid_position(counts(), number)) {
    if (!name.empty()) name += separator;
    name += std::to_string(each);
  }
  return name;
}

std::optional<std::uint64_t> ZarrArray::chunk_number(std::string_view name) const {
  if (shape.empty())
    return name == (has_c ? "c" : "0") ? std::optional<std::uint64_t>(0) : std::nullopt;
  if (has_c) {
    if (name.size() < 2 || name[0] != 'c' || name[1] != separator) return std::nullopt;
    name.remove_prefix(2);
  }
  std::uint64_t number = 0;
  const auto all = counts();
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::uint64_t each = 0;
    const char* const end = name.data() + name.size();
    const auto [after, error] = std::from_chars(name.data(), end, each);
    if (error != std::errc{} || each >= all[i]) return std::nullopt;
    if (name[0] == '0' && after - name.data() > 1) return std::nullopt;
    number = number * all[i] + each;
    const bool is_last = i + 1 == all.size();
    if (is_last != (after == end) || (!is_last && *after != separator)) return std::nullopt;
    name.remove_prefix(static_cast<std::size_t>(after - name.data()) + (is_last ? 0 : 1));
  }
  return number;
}

std::optional<std::uint64_t> chunk_bytes(const ZarrGrid& grid, std::uint32_t width) {
  return product(grid.chunk, width);
}

Result<ZarrArray> parse_zarr2(std::string_view text, const Limits& limits) {
  const auto json = parse_object(text);
  if (!json) return propagate(json);
  const JsonRef root = json->root();
  if (root.member("zarr_format") && root.member("zarr_format")->uint64() != 2) {
    return bad_array("zarr_format is not 2");
  }
  ZarrArray array;
  const auto shape = numbers_of(root.member("shape"));
  const auto chunks = numbers_of(root.member("chunks"));
  if (!shape || !chunks) return bad_array("it has no shape, or no chunks");
  array.shape = *shape;
  array.grid.chunk = *chunks;
  const auto dtype = root.member("dtype");
  const std::string_view name = text_of(dtype);
  if (name.empty()) {
    return fail(ErrorCode::kUnsupportedFeature,
                "its elements have fields, which are not read" + std::string(kResave));
  }
  const auto numpy = parse_numpy_type(name);
  if (numpy && !numpy->has_objects && numpy->dtype != DType::kOpaque) {
    array.dtype = numpy->dtype;
    array.width = static_cast<std::uint32_t>(numpy->bytes);
    array.is_swapped = numpy->is_swapped;
  } else if (auto ok = set_type(array, name); !ok) {
    return propagate(ok);
  }
  array.grid.order = plain_order(shape->size());
  const std::string_view order = text_of(root.member("order"));
  if (order == "F") {
    std::reverse(array.grid.order.begin(), array.grid.order.end());
  } else if (!order.empty() && order != "C") {
    return bad_array("its order is neither C nor F");
  }
  if (const auto filters = root.member("filters"); filters && filters->size() > 0) {
    return unread_codec("filters");
  }
  if (const auto compressor = root.member("compressor"); compressor && !compressor->is_null()) {
    const std::string_view id = text_of(compressor->member("id"));
    if (id == "zstd") {
      array.grid.packing = ZarrPacking::kZstd;
    } else if (id == "gzip") {
      array.grid.packing = ZarrPacking::kGzip;
    } else if (id == "zlib") {
      array.grid.packing = ZarrPacking::kZlib;
    } else {
      return unread_codec(id);
    }
  }
  const std::string_view separator = text_of(root.member("dimension_separator"));
  if (!separator.empty() && separator != "." && separator != "/") {
    return bad_array("its dimension_separator is neither . nor /");
  }
  if (!separator.empty()) array.separator = separator[0];
  if (auto ok = check_shapes(array, limits); !ok) return propagate(ok);
  if (auto ok = set_fill(array, root.member("fill_value")); !ok) return propagate(ok);
  return array;
}

Result<ZarrArray> parse_zarr3(std::string_view text, const Limits& limits) {
  const auto json = parse_object(text);
  if (!json) return propagate(json);
  const JsonRef root = json->root();
  const auto format = root.member("zarr_format");
  if (!format || format->uint64() != 3) return bad_array("zarr_format is not 3");
  if (text_of(root.member("node_type")) != "array") {
    return fail(ErrorCode::kUnsupportedFeature, "it is a group of zarr, and no array");
  }
  constexpr std::string_view kKnown[] = {
      "zarr_format",        "node_type",  "shape",      "data_type", "chunk_grid",
      "chunk_key_encoding", "fill_value", "attributes", "codecs",    "dimension_names"};
  for (const auto& [name, value] : root.members()) {
    if (std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown)) continue;
    // An empty list of storage transformers changes nothing.
    if (name == "storage_transformers" && value.is_array() && value.size() == 0) continue;
    const auto must = value.member("must_understand");
    if (must && must->boolean() == false) continue;
    return fail(ErrorCode::kUnsupportedFeature, "its metadata have '" + std::string(name) +
                                                    "', which is not known" + std::string(kResave));
  }
  ZarrArray array;
  const auto shape = numbers_of(root.member("shape"));
  if (!shape) return bad_array("it has no shape");
  array.shape = *shape;
  const std::string_view type = text_of(root.member("data_type"));
  if (type.empty()) {
    return fail(ErrorCode::kUnsupportedFeature,
                "its data_type is not known" + std::string(kResave));
  }
  if (auto ok = set_type(array, type); !ok) return propagate(ok);
  const auto grid = root.member("chunk_grid");
  const auto grid_options = grid ? grid->member("configuration") : std::nullopt;
  const auto chunks = numbers_of(grid_options ? grid_options->member("chunk_shape") : std::nullopt);
  if (!grid || text_of(grid->member("name")) != "regular" || !chunks) {
    return fail(ErrorCode::kUnsupportedFeature,
                "its chunks are not cut regularly" + std::string(kResave));
  }
  array.grid.chunk = *chunks;
  array.grid.order = plain_order(chunks->size());
  const auto keys = root.member("chunk_key_encoding");
  const std::string_view encoding =
      !keys ? std::string_view("default") : keys->text().value_or(text_of(keys->member("name")));
  const auto key_options = keys ? keys->member("configuration") : std::nullopt;
  const std::string_view separator =
      text_of(key_options ? key_options->member("separator") : std::nullopt);
  if ((encoding != "default" && encoding != "v2") ||
      (!separator.empty() && separator != "/" && separator != ".")) {
    return fail(ErrorCode::kUnsupportedFeature,
                "its chunks have names in an unknown form" + std::string(kResave));
  }
  array.has_c = encoding == "default";
  array.separator = !separator.empty() ? separator[0] : array.has_c ? '/' : '.';
  if (auto ok = check_shapes(array, limits); !ok) return propagate(ok);
  if (auto ok = CodecReader(array).read(array.grid, root.member("codecs"), 0); !ok) {
    return propagate(ok);
  }
  if (auto ok = set_fill(array, root.member("fill_value")); !ok) return propagate(ok);
  return array;
}

}  // namespace espalier
