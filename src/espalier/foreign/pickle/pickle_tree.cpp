#include "espalier/foreign/pickle/pickle_tree.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "espalier/base/utf8.h"
#include "espalier/bigint.h"
#include "espalier/codec/hash.h"
#include "espalier/dtype.h"
#include "espalier/format/tree_walk.h"

namespace espalier {
namespace {

constexpr std::uint64_t kFreeNodes = 65'536;
// Values that many calls share are read for each of them: a million calls with one tuple of a
// million elements would take hours. So reading takes at most so many steps for each byte of the
// pickle, and texts that are made of others, such as names of classes, so many bytes.
constexpr std::uint64_t kMostSteps = 8;
constexpr std::uint64_t kFreeSteps = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostText = 4;
constexpr std::uint64_t kFreeText = std::uint64_t{1} << 20;
// What hashing and checking a text costs.
constexpr std::uint64_t kTextBytesPerStep = 16;
// What keeping a field costs.
constexpr std::uint64_t kStepsPerField = 4;

// Little-endian two's complement in as few bytes as it needs.
ByteSpan shortest(ByteSpan bytes) {
  const auto is_sign = [](std::byte last, std::byte before) {
    const bool is_negative = (before & std::byte{0x80}) != std::byte{0};
    return last == (is_negative ? std::byte{0xFF} : std::byte{0});
  };
  while (bytes.size() > 1 && is_sign(bytes.back(), bytes[bytes.size() - 2])) {
    bytes = bytes.first(bytes.size() - 1);
  }
  return bytes;
}

// The number that 1 to 8 such bytes are.
std::uint64_t small_bits(ByteSpan bytes) {
  std::uint64_t value = (bytes.back() & std::byte{0x80}) != std::byte{0} ? ~std::uint64_t{0} : 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

// Such bytes of a finite number beyond 2^62, which is a whole one.
std::string whole_bytes(double value) {
  const auto bits = bits_as<std::uint64_t>(value);
  constexpr std::uint64_t kHidden = std::uint64_t{1} << 52;
  const std::uint64_t shift = (bits >> 52 & 0x7FF) - 1075;
  std::uint64_t top = (kHidden | (bits & (kHidden - 1))) << shift % 8;
  if (value < 0) top = 0 - top;
  std::string bytes(static_cast<std::size_t>(shift / 8), '\0');
  return bytes.append(reinterpret_cast<const char*>(&top), sizeof top);
}

}  // namespace

PickleTree::PickleTree(const PickleGraph& graph, const Limits& limits, Notes& notes,
                       NamedCode::IsData is_data)
    : graph_(graph),
      limits_(limits),
      notes_(notes),
      known_(graph.object_count()),
      tensors_(graph.object_count()),
      is_explained_(graph.object_count()),
      open_(graph.object_count()),
      code_(is_data) {
  // The metadata: its fields are set when its children are asked for.
  shapes_.push_back({.from = From::kFields, .kind = Kind::kDict});
}

PickleShape PickleTree::refuse(std::string_view message, ErrorCode code) {
  if (!error_) error_ = Error{code, Error::kNoOffset, path(), message};
  return {};
}

void PickleTree::note(Note::Kind kind, std::string message) {
  // The path of a millionth note is not worth making.
  const bool is_listed = notes_.listed().size() < Notes::kMaxListed;
  notes_.add({kind, is_listed ? path() : std::string(), std::move(message)});
}

std::string_view PickleTree::keep(std::string text) {
  count_steps(text.size() / kMadeBytesPerStep);
  const auto [kept, is_new] = texts_.insert(std::move(text));
  if (is_new) text_bytes_ += kept->size();
  return *kept;
}

void PickleTree::count_steps(std::uint64_t steps) {
  steps_ += steps;
  if (steps_ > kMostSteps * graph_.size() + kFreeSteps ||
      text_bytes_ > kMostText * graph_.size() + kFreeText) {
    refuse("values in this pickle are used so often that reading it would take too much",
           ErrorCode::kLimitExceeded);
  }
}

std::string_view PickleTree::name_of(PickleGlobal global) {
  std::string name(module_of_global(global));
  return keep(name.append(1, '.').append(global.name));
}

// Makers of shapes.

PickleShape PickleTree::literal(PickleRef ref) const {
  PickleShape shape{.from = From::kLiteral, .ref = ref};
  switch (graph_.type(ref)) {
    case PickleType::kByteArray:
      shape.label = "bytearray";
      break;
    default:
      break;
  }
  return shape;
}

PickleShape PickleTree::labelled(PickleShape shape, std::string_view label) {
  // Only one label is possible, and what the value is matters more than what it was in.
  if (shape.label.empty()) shape.label = label;
  return shape;
}

PickleShape PickleTree::text(std::string_view text, std::string_view label) {
  return {.from = From::kText, .kind = Kind::kString, .label = label, .text = text};
}

PickleShape PickleTree::elements(Kind kind, PickleRef ref, std::string_view label) const {
  return {.from = From::kElements, .kind = kind, .label = label, .ref = ref};
}

PickleShape PickleTree::fields(std::string_view label, std::span<const Field> named) {
  const auto first = static_cast<std::uint32_t>(fields_.size());
  count_steps(kStepsPerField * named.size());
  fields_.insert(fields_.end(), named.begin(), named.end());
  return {.from = From::kFields,
          .kind = Kind::kRecord,
          .label = label,
          .first = first,
          .count = static_cast<std::uint32_t>(named.size())};
}

PickleShape PickleTree::nodes(Kind kind, std::string_view label, std::span<const Node> children) {
  const auto first = static_cast<std::uint32_t>(fields_.size());
  for (const Node& child : children) fields_.push_back({{}, child});
  return {.from = From::kNodes,
          .kind = kind,
          .label = label,
          .first = first,
          .count = static_cast<std::uint32_t>(children.size())};
}

PickleShape PickleTree::tensor(PickleRef ref, std::string_view label) const {
  return {.from = From::kTensor, .kind = Kind::kTensor, .label = label, .ref = ref};
}

PickleNode PickleTree::made(PickleShape shape) {
  shapes_.push_back(shape);
  return PickleNode::made(static_cast<std::uint32_t>(shapes_.size() - 1));
}

PickleShape PickleTree::dict(PickleRef ref, From from, std::string_view label) {
  const std::vector<PickleRef> items = items_of(ref, from);
  if (are_keys(items, false)) {
    return {.from = from, .kind = Kind::kDict, .label = label, .ref = ref};
  }
  std::vector<Node> pairs;
  Identities seen;
  for (std::size_t i = 0; i < items.size(); i += 2) {
    // Python keeps the last value of a key, so this list would show what is not in the dict.
    if (!is_first(items[i], seen)) return refuse(std::string(kRepeatedKey));
    if (error_) return {};
    const Node pair[] = {items[i], items[i + 1]};
    pairs.push_back(made(nodes(Kind::kTuple, {}, pair)));
  }
  return nodes(Kind::kList, kItemsLabel, pairs);
}

bool PickleTree::is_first(PickleRef key, Identities& seen) {
  const Hash128 identity = identity_of(key, 0);
  return seen.emplace(identity.low, identity.high).second;
}

// A hash that is the same for keys that are equal in Python: 1, 1.0 and True are. Objects other
// than tuples, frozensets and classes are equal to themselves alone.
Hash128 PickleTree::identity_of(PickleRef key, int depth) {
  const auto hash_of = [](char type, ByteSpan bytes) {
    Hash128 hash = hash128(bytes);
    hash.low += static_cast<std::uint64_t>(type);
    return hash;
  };
  const auto hash_of_number = [&](char type, std::uint64_t number) {
    return hash_of(type, std::as_bytes(std::span(&number, 1)));
  };
  if (key.is_literal()) {
    const PickleLiteral literal = graph_.literal(key);
    count_steps(literal.bytes.size() / kTextBytesPerStep);
    switch (literal.type) {
      case PickleType::kNone:
        return hash_of('n', {});
      case PickleType::kBool:
      case PickleType::kInt:
        return hash_of_number('i', bits_as<std::uint64_t>(literal.integer));
      case PickleType::kFloat: {
        constexpr double kIntegers = 9'223'372'036'854'775'808.0;  // 2^63
        const bool is_in_range = literal.real >= -kIntegers && literal.real < kIntegers;
        const auto integer = is_in_range ? static_cast<std::int64_t>(literal.real) : 0;
        if (static_cast<double>(integer) == literal.real) {
          return hash_of_number('i', bits_as<std::uint64_t>(integer));
        }
        if (std::isnan(literal.real)) break;
        if (!is_in_range && std::isfinite(literal.real)) {
          return hash_of('l', shortest(as_bytes(whole_bytes(literal.real))));
        }
        return hash_of_number('f', bits_as<std::uint64_t>(literal.real));
      }
      case PickleType::kText:
      case PickleType::kOldText:
        return hash_of('s', as_bytes(unescaped(literal)));
      case PickleType::kBytes:
        return hash_of('b', literal.bytes);
      case PickleType::kBigInt: {
        if (literal.is_decimal) {
          count_steps(literal.bytes.size());
          const auto number = BigInt::from_decimal(as_text(literal.bytes), limits_.bigint_bytes);
          return number ? hash_of('l', number->bytes()) : hash_of('d', literal.bytes);
        }
        const ByteSpan bytes = shortest(literal.bytes);
        return bytes.size() > sizeof(std::int64_t) ? hash_of('l', bytes)
                                                   : hash_of_number('i', small_bits(bytes));
      }
      default:
        break;
    }
    return hash_of_number('o', ~std::uint64_t{key.number()});
  }
  const PickleType type = graph_.type(key);
  if (type == PickleType::kGlobal) return hash_of('g', as_bytes(name_of(graph_.global(key))));
  const bool is_set = type == PickleType::kFrozenSet;
  if ((type == PickleType::kTuple || is_set) && depth < kMaxFieldNesting) {
    std::vector<std::uint64_t> parts;
    for (const PickleRef part : elements_of(key)) {
      if (error_) break;
      const Hash128 hash = identity_of(part, depth + 1);
      if (is_set && !parts.empty()) {  // In any order: Python writes no element twice.
        parts[0] += hash.low;
        parts[1] += hash.high;
      } else {
        parts.insert(parts.end(), {hash.low, hash.high});
      }
    }
    return hash_of(is_set ? 'z' : 't', std::as_bytes(std::span(parts)));
  }
  return hash_of_number('o', key.number());
}

// Readers of arguments.

std::vector<PickleRef> PickleTree::elements_of(PickleRef ref) {
  std::vector<PickleRef> found;
  graph_.elements(ref, found);
  count_steps(found.size());
  return found;
}

std::vector<PickleRef> PickleTree::items_of(PickleRef ref) {
  std::vector<PickleRef> found;
  graph_.items(ref, found);
  count_steps(found.size());
  return found;
}

std::vector<PickleRef> PickleTree::items_of(PickleRef ref, From from) {
  if (from == From::kSetItems) return items_of(ref);
  std::vector<PickleRef> found = elements_of(ref);
  if (from != From::kPairs) return found;
  std::vector<PickleRef> items;
  for (const PickleRef pair : found) graph_.elements(pair, items);
  return items;
}

// Whether `ref`, the argument of `user`, has pairs of keys and values, as OrderedDict had it in
// Python 2.
bool PickleTree::are_pairs(PickleRef ref, PickleRef user) {
  if (!is_sequence(ref, user)) return false;
  for (const PickleRef pair : elements_of(ref)) {
    if (!is_sequence(pair, user)) return false;
    const std::uint64_t count = graph_.element_count(pair);
    count_steps(count);
    if (count != 2) return false;
  }
  return true;
}

bool PickleTree::is_sequence(PickleRef ref, PickleRef user) const {
  const PickleType type = graph_.type(ref);
  return type == PickleType::kTuple || (type == PickleType::kList && is_settled(ref, user));
}

bool PickleTree::is_settled(PickleRef ref, PickleRef user) const {
  if (ref.is_literal()) return true;
  const PickleType type = graph_.type(ref);
  const bool can_change =
      type == PickleType::kList || type == PickleType::kDict || type == PickleType::kSet;
  return !can_change || !graph_.is_changed_since(ref, user);
}

std::optional<std::int64_t> PickleTree::integer(PickleRef ref) const {
  if (!ref.is_literal()) return std::nullopt;
  const PickleLiteral literal = graph_.literal(ref);
  if (literal.type != PickleType::kInt) return std::nullopt;
  return literal.integer;
}

std::optional<bool> PickleTree::boolean(PickleRef ref) const {
  if (!ref.is_literal()) return std::nullopt;
  const PickleLiteral literal = graph_.literal(ref);
  if (literal.type != PickleType::kBool && literal.type != PickleType::kInt) return std::nullopt;
  return literal.integer != 0;
}

std::optional<double> PickleTree::real(PickleRef ref) const {
  if (!ref.is_literal()) return std::nullopt;
  const PickleLiteral literal = graph_.literal(ref);
  if (literal.type == PickleType::kFloat) return literal.real;
  if (literal.type == PickleType::kInt) return static_cast<double>(literal.integer);
  return std::nullopt;
}

std::string_view PickleTree::unescaped(const PickleLiteral& literal) {
  count_steps(literal.bytes.size() / kTextBytesPerStep);
  if (!literal.is_escaped) return as_text(literal.bytes);
  const std::vector<char> plain = PickleGraph::unescape(literal);
  return keep(std::string(plain.begin(), plain.end()));
}

std::optional<std::string_view> PickleTree::text_of(PickleRef ref) {
  if (!ref.is_literal()) return std::nullopt;
  const PickleLiteral literal = graph_.literal(ref);
  if (!is_text(literal.type)) return std::nullopt;
  const std::string_view text = unescaped(literal);
  if (find_invalid_utf8(text)) return std::nullopt;
  return text;
}

bool PickleTree::equals_text(PickleRef ref, std::string_view text) const {
  if (!ref.is_literal()) return false;
  const PickleLiteral literal = graph_.literal(ref);
  return is_text(literal.type) && !literal.is_escaped && as_text(literal.bytes) == text;
}

bool PickleTree::read_sizes(PickleRef ref, std::vector<std::uint64_t>& numbers) {
  numbers.clear();
  PickleRef from = ref;
  if (!from.is_literal() && graph_.type(from) == PickleType::kCall) {  // torch.Size((2, 3))
    const auto function = global_of(graph_.call(from).callable);
    const auto args = args_of(from);
    if (!function || !is_global(*function, "torch", "Size") || args.size() != 1) return false;
    from = args[0];
  }
  if (!is_tuple(from)) return false;
  count_steps(tuple(from).size());
  for (const PickleRef each : tuple(from)) {
    const auto number = integer(each);
    if (!number || *number < 0) return numbers.clear(), false;
    numbers.push_back(static_cast<std::uint64_t>(*number));
  }
  return true;
}

std::optional<PickleGlobal> PickleTree::global_of(PickleRef ref) const {
  const auto found = graph_.class_of(ref);
  if (!found) return std::nullopt;
  return graph_.global(*found);
}

// What _codecs.encode(text, 'latin1') gives: a byte for each character.
std::optional<std::string> PickleTree::encoded_latin(PickleRef ref) {
  const auto function = global_of(graph_.call(ref).callable);
  const auto args = args_of(ref);
  if (!function) return std::nullopt;
  // Empty bytes are bytes().
  if (args.empty() && is_global(*function, "builtins", "bytes")) return std::string();
  const bool is_known =
      is_global(*function, "_codecs", "encode") || is_global(*function, "builtins", "bytearray");
  if (!is_known || args.size() != 2) return std::nullopt;
  const auto codec = text_of(args[1]);
  const auto text = text_of(args[0]);
  if (!text || (codec != "latin1" && codec != "latin-1")) return std::nullopt;
  std::string bytes;
  count_steps(text->size() / kMadeBytesPerStep);
  for (std::size_t at = 0; at < text->size();) {
    const Utf8Char character = decode_utf8(*text, at);
    if (character.code_point > 0xFF) return std::nullopt;
    bytes += static_cast<char>(character.code_point);
    at += character.length;
  }
  return bytes;
}

// The Source of a walk.

bool PickleTree::add_literal(TableBuilder& builder, PickleRef ref) {
  const PickleLiteral literal = graph_.literal(ref);
  switch (literal.type) {
    case PickleType::kNone:
      builder.null();
      break;
    case PickleType::kBool:
      builder.boolean(literal.integer != 0);
      break;
    case PickleType::kInt:
      builder.integer(literal.integer);
      break;
    case PickleType::kFloat:
      builder.real(literal.real);
      break;
    case PickleType::kText:
    case PickleType::kOldText: {
      const std::string_view text = unescaped(literal);
      if (find_invalid_utf8(text)) {
        builder.label("str");
        builder.bytes(as_bytes(text));
      } else {
        builder.string(text);
      }
      break;
    }
    case PickleType::kBytes:
    case PickleType::kByteArray:
      count_steps(literal.bytes.size());
      builder.bytes(literal.bytes);
      break;
    case PickleType::kBigInt:
      add_bigint(builder, literal);
      break;
    default:
      builder.null();
  }
  return builder.ok();
}

void PickleTree::add_bigint(TableBuilder& builder, const PickleLiteral& literal) {
  const auto too_long = [&] {
    builder.refuse("an integer takes more than the bytes that Limits::bigint_bytes allows",
                   ErrorCode::kLimitExceeded);
  };
  if (literal.is_decimal) {
    const auto number = BigInt::from_decimal(as_text(literal.bytes), limits_.bigint_bytes);
    if (number) return builder.bigint(number->bytes());
    if (number.error().code == ErrorCode::kLimitExceeded) return too_long();
    return builder.refuse("an integer has needless zeros", ErrorCode::kForeignInvalid);
  }
  const ByteSpan bytes = shortest(literal.bytes);
  if (bytes.size() > limits_.bigint_bytes) return too_long();
  if (bytes.size() > sizeof(std::int64_t)) return builder.bigint(bytes);
  builder.integer(bits_as<std::int64_t>(small_bits(bytes)));
}

bool PickleTree::add_tensor(TableBuilder& builder, PickleRef ref) {
  if (const std::uint32_t known = tensors_[ref.number()]; known != 0) {
    builder.known_tensor(known - 1);
    return builder.ok();
  }
  ForeignTensor& tensor = tensor_;
  tensor.clear();
  tensor.dtype = DType::kOpaque;
  std::string missing;
  const bool is_given = read_tensor(ref, tensor, missing);
  if (error_) return false;
  ++tensor_count_;
  if (!is_given) {
    if (!missing.empty()) {
      note(Note::Kind::kLoss, "This tensor cannot be given: " + missing + ".");
    }
    const bool is_opaque = tensor.dtype == DType::kOpaque;
    if (is_opaque && tensor.block.name.empty()) tensor.block = {"unknown", 1, 1};
    if (!tensor_bytes(tensor.dtype, tensor.shape, tensor.block)) tensor.shape.clear();
    if (is_opaque && tensor.shape.empty()) tensor.shape.push_back(1);
    builder.placeholder({tensor.dtype, tensor.shape, tensor.block});
    return builder.ok();
  }
  words_.assign({static_cast<std::uint64_t>(tensor.dtype), tensor.flags, tensor.file, tensor.offset,
                 tensor.shape.size()});
  words_.insert(words_.end(), tensor.shape.begin(), tensor.shape.end());
  words_.insert(words_.end(), tensor.strides.begin(), tensor.strides.end());
  // Bytes of two types are two tensors, as |S4 and |V4 are.
  if (tensor.dtype == DType::kOpaque) {
    words_.insert(words_.end(),
                  {hash64(as_bytes(tensor.block.name)), tensor.block.elements, tensor.block.bytes});
  }
  const std::uint32_t number = builder.tensor_count();
  const Hash128 hash = hash128(std::as_bytes(std::span(words_)));
  const std::size_t before = tied_.size();
  const auto tied = tied_.try_emplace(tied_.end(), {tensor.offset, hash.low, hash.high}, number);
  const bool is_new = tied_.size() > before;
  tensors_[ref.number()] = tied->second + 1;
  if (is_new) {
    add_foreign_tensor(builder, tensor);
  } else {
    builder.known_tensor(tied->second);
  }
  return builder.ok();
}

bool PickleTree::add(TableBuilder& builder, Node node, bool in_metadata) {
  PickleShape shape;
  if (error_) {
    // Paths of cycles count as work, so the one before may have been too much.
  } else if (const auto depth = open_depth(node)) {
    note(Note::Kind::kLoss, "This object is inside itself; a null stands in its place.");
    shape.label = keep("pickle.cycle:" + walk_->path_of(*depth));
  } else {
    shape = shape_of(node);
  }
  if (error_) {
    builder.refuse(error_->message, error_->code);
    return false;
  }
  if (!shape.label.empty()) builder.label(shape.label);
  if (shape.label == kGlobalLabel) note_path(shape.text);
  if (shape.label == kItemsLabel) {
    note(Note::Kind::kWarning,
         "This dict has keys other than texts and integers of 64 bits; it is a list of pairs.");
  }
  switch (shape.from) {
    case From::kNothing:
      builder.null();
      break;
    case From::kLiteral:
      if (shape.ref.is_literal()) return add_literal(builder, shape.ref);
      return add_called(builder, shape);
    case From::kText:
      builder.string(shape.text);
      break;
    case From::kTensor:
      if (in_metadata) {
        note(Note::Kind::kLoss, "This tensor is in an attribute, where none can be kept.");
        builder.null();
        break;
      }
      return add_tensor(builder, shape.ref);
    default:
      builder.container(shape.kind);
  }
  return builder.ok();
}

// Literals that are calls: bytes of protocol 2, complex numbers.
bool PickleTree::add_called(TableBuilder& builder, const PickleShape& shape) {
  const auto args = args_of(shape.ref);
  if (shape.kind == Kind::kComplex128) {
    std::array<double, 2> parts = {};
    for (std::size_t i = 0; i < 2; ++i) parts[i] = real(args[i]).value_or(0);
    builder.complex({parts[0], parts[1]});
  } else if (args.empty()) {
    builder.bytes({});
  } else if (const auto decoded = encoded_latin(shape.ref)) {
    builder.bytes(as_bytes(*decoded));
  } else {
    builder.refuse("bytes are encoded in another way than Python does", ErrorCode::kForeignInvalid);
  }
  return builder.ok();
}

bool PickleTree::is_container(Node node) {
  if (error_ || open_depth(node)) return false;
  // The usual case, without its shape.
  if (node.shape == 0 && !node.ref.is_literal() && tensors_[node.ref.number()] != 0 &&
      known_[node.ref.number()] == 0) {
    return false;
  }
  return espalier::is_container(shape_of(node).kind);
}

std::string PickleTree::path() const {
  return walk_ == nullptr ? std::string() : walk_->current_path();
}

std::optional<std::size_t> PickleTree::open_depth(Node node) const {
  if (node.shape != 0 || node.ref.is_literal() || open_[node.ref.number()] == 0) return {};
  return open_[node.ref.number()] - 1;
}

PickleTree::Children PickleTree::children(Node node) {
  if (node.shape == kMetadataShape + 1) {
    has_metadata_ = true;
    PickleShape& metadata = shapes_[kMetadataShape];
    if (!attributes_.empty()) {
      PickleShape all = fields({}, attributes_);
      all.kind = Kind::kDict;
      const Field named[] = {{"torch.attributes", made(all)}};
      PickleShape root = fields({}, named);
      root.kind = Kind::kDict;
      shapes_[kMetadataShape] = root;
    } else {
      metadata.count = 0;
    }
  }
  const PickleShape shape = shape_of(node);
  const bool is_object = node.shape == 0 && !node.ref.is_literal();
  Children found(*this, is_object ? std::optional(node.ref) : std::nullopt);
  if (is_object) {
    open_[node.ref.number()] = static_cast<std::uint32_t>(walk_->depth() + 1);
    keep_attributes(node.ref);
  }
  fill(found, shape);
  // Objects that share others stand for many more nodes than there are objects: 222 bytes of tuples
  // of twice the same tuple are 2^30.
  nodes_ += found.size();
  if (nodes_ > graph_.size() + kFreeNodes && !error_) {
    refuse(
        "objects in this pickle are shared so often that its tree would have more nodes than "
        "the pickle has bytes",
        ErrorCode::kLimitExceeded);
    found.keys_.clear();
    found.nodes_.clear();
  }
  return found;
}

void PickleTree::fill(Children& found, const PickleShape& shape) {
  if (shape.from == From::kFields || shape.from == From::kNodes) {
    for (std::uint32_t i = 0; i < shape.count; ++i) {
      const Field& field = fields_[shape.first + i];
      if (shape.from == From::kFields) found.keys_.push_back(KeyView::of(field.name));
      found.nodes_.push_back(field.node);
    }
    return;
  }
  const std::vector<PickleRef> items = items_of(shape.ref, shape.from);
  if (shape.from == From::kElements) {
    Identities seen;  // A set has equal elements once, and the first of them stays.
    bool has_nan = false;
    for (const PickleRef item : items) {
      if (shape.kind == Kind::kSet && !is_first(item, seen)) continue;
      if (shape.kind == Kind::kSet &&
          std::isnan(real(item).value_or(0))) {  // NaNs differ for Python, but not here.
        if (has_nan)
          note(Note::Kind::kLoss, "This set has NaN more than once; one of them is kept.");
        if (std::exchange(has_nan, true)) continue;
      }
      found.nodes_.push_back(item);
    }
    return;
  }
  found.keys_.reserve(items.size() / 2);
  found.nodes_.reserve(items.size() / 2);
  for (std::size_t i = 0; i < items.size(); i += 2) {
    found.keys_.push_back(*key_of(items[i], false));
    found.nodes_.push_back(items[i + 1]);
  }
}

Result<void> PickleTree::add_to(TableBuilder& builder) {
  if (auto named = code_.add(graph_); !named) return named;
  TreeWalk<PickleTree> walk(*this, builder, limits_);
  walk_ = &walk;
  const bool is_whole = walk.run(graph_.root(), PickleNode::made(kMetadataShape));
  walk_ = nullptr;
  if (!is_whole) failed_path_ = walk.current_path();
  if (is_whole) find_hidden_calls();
  code_.add_to(notes_);
  if (error_) return tl::unexpected<Error>(*error_);
  return {};
}

// A call whose result is thrown away, or stands where only the form of an argument is looked at, is
// in no node of the tree. Attackers put theirs there, beside tensors that look harmless. NamedCode
// finds the names; this finds calls of names that are data, with arguments that are not.
void PickleTree::find_hidden_calls() {
  std::optional<PickleCall> harmless;
  for (std::uint32_t number = 0; number < graph_.object_count() && !error_; ++number) {
    const PickleRef ref = PickleRef::object(number);
    if (known_[number] != 0 || tensors_[number] != 0 || is_explained_[number]) continue;
    if (graph_.type(ref) != PickleType::kCall) continue;
    const PickleCall call = graph_.call(ref);
    const bool is_bare = graph_.is_bare(ref);
    // torch makes the same empty OrderedDict for the hooks of every tensor.
    if (is_bare && call == harmless) continue;
    const std::uint64_t before = call_count_;
    shape_of_ref(ref);
    if (is_bare && call_count_ == before) harmless = call;
  }
}

// A state_dict's _metadata is an attribute of its OrderedDict, and no entry of it.
void PickleTree::keep_attributes(PickleRef ref) {
  const PickleRef* const state = graph_.state(ref);
  if (state == nullptr || graph_.type(ref) != PickleType::kCall) return;
  const auto function = global_of(graph_.call(ref).callable);
  if (!function || function->module != "collections") return;
  const bool is_empty = !state->is_literal() && !graph_.has_elements(*state);
  if (is_empty) return;
  if (has_metadata_) {
    return note(Note::Kind::kLoss,
                "The attributes of this attribute are lost: it is kept without.");
  }
  attributes_.push_back({keep(path()), *state});
}

}  // namespace espalier
