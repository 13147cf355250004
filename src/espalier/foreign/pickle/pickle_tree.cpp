#include "espalier/foreign/pickle/pickle_tree.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/utf8.h"
#include "espalier/bigint.h"
#include "espalier/codec/hash.h"
#include "espalier/dtype.h"
#include "espalier/foreign/numpy/numpy_type.h"
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
constexpr std::uint64_t kMadeBytesPerStep = 4;
// What keeping a field costs.
constexpr std::uint64_t kStepsPerField = 4;
constexpr std::uint32_t kMaxStateNesting = 32;
constexpr int kMaxFieldNesting = 8;
constexpr std::string_view kGlobalLabel = "python.global";

bool is_text(PickleType type) { return type == PickleType::kText || type == PickleType::kOldText; }

bool is(PickleGlobal global, std::string_view module, std::string_view name) {
  return global.name == name && module_of_global(global) == module;
}

// numpy's modules were renamed twice.
bool is_numpy(PickleGlobal global, std::string_view module, std::string_view name) {
  if (global.name != name || !global.module.starts_with("numpy.")) return false;
  std::string_view rest = global.module.substr(6);
  if (rest.starts_with("_core.")) rest.remove_prefix(1);
  return rest.starts_with("core.") && rest.substr(5) == module;
}

// The class of numpy's scalars of a type, such as "f4".
std::string numpy_scalar(std::string_view code) {
  constexpr std::pair<char, std::string_view> kNumbers[] = {
      {'i', "int"}, {'u', "uint"}, {'f', "float"}, {'c', "complex"}};
  constexpr std::pair<char, std::string_view> kOthers[] = {
      {'b', "bool"}, {'M', "datetime64"}, {'m', "timedelta64"},
      {'U', "str_"}, {'S', "bytes_"},     {'V', "void"}};
  std::string name = "numpy.";
  for (const auto& [kind, word] : kNumbers) {
    const auto type = code.starts_with(kind) ? parse_numpy_type(code) : std::nullopt;
    if (type) return name.append(word) + std::to_string(type->bytes * 8);
  }
  for (const auto& [kind, word] : kOthers) {
    if (code.starts_with(kind)) name += word;
  }
  return name;
}

// Python's repr() of a text without line ends.
std::string repr(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

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
  return nodes(Kind::kList, "dict.items", pairs);
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
    if (!function || !is(*function, "torch", "Size") || args.size() != 1) return false;
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

// Shapes.

PickleShape PickleTree::shape_of(Node node) {
  return node.shape != 0 ? shapes_[node.shape - 1] : shape_of_ref(node.ref);
}

PickleShape PickleTree::shape_of_ref(PickleRef ref) {
  if (ref.is_literal()) return literal(ref);
  const std::uint32_t known = known_[ref.number()];
  if (known != 0) return shapes_[known - 1];
  // A parameter of a parameter of a parameter, ten thousand times, would exhaust the stack.
  if (++nesting_ > kMaxStateNesting) {
    --nesting_;
    return refuse("calls in this pickle are nested too deep");
  }
  const PickleShape shape = shape_object(ref);
  --nesting_;
  // Those that have made fields or texts must be made once.
  const bool is_large = espalier::is_container(shape.kind) && graph_.element_count(ref) > 16;
  if (shape.from == From::kFields || shape.from == From::kNodes || shape.from == From::kText ||
      is_large) {
    shapes_.push_back(shape);
    known_[ref.number()] = static_cast<std::uint32_t>(shapes_.size());
  }
  return shape;
}

PickleShape PickleTree::shape_object(PickleRef ref) {
  switch (graph_.type(ref)) {
    case PickleType::kTuple:
      return elements(Kind::kTuple, ref, {});
    case PickleType::kList:
      return elements(Kind::kList, ref, {});
    case PickleType::kSet:
      return elements(Kind::kSet, ref, {});
    case PickleType::kFrozenSet:
      return elements(Kind::kSet, ref, "frozenset");
    case PickleType::kDict:
      return dict(ref, From::kItems, {});
    case PickleType::kGlobal: {
      const PickleGlobal global = graph_.global(ref);
      if (const auto shape = shape_global(global)) return *shape;
      return text(name_of(global), kGlobalLabel);
    }
    case PickleType::kPersistent:
      return shape_persistent(ref);
    case PickleType::kCall: {
      const PickleCall call = graph_.call(ref);
      const auto function = global_of(call.callable);
      // Calls of what another call returned: getattr(module, "name")(...).
      if (!function) return shape_opaque(ref, {"pickle", "call"}, call.args);
      if (!is_tuple(call.args)) return shape_opaque(ref, *function, call.args);
      const auto args = tuple(call.args);
      count_steps(args.size());
      if (const auto shape = shape_call(*function, ref, args)) return whole(*shape, ref);
      if (const auto shape = shape_python(*function, ref, args)) return whole(*shape, ref);
      if (const auto shape = shape_numpy(*function, ref, args)) return whole(*shape, ref);
      return shape_opaque(ref, *function, call.args);
    }
    case PickleType::kNew: {
      const PickleCall call = graph_.call(ref);
      const auto cls = global_of(call.callable);
      if (!cls) return shape_opaque(ref, {"pickle", "new"}, call.args);
      if (!is_tuple(call.args)) return shape_opaque(ref, *cls, call.args);
      if (const auto shape = shape_call(*cls, ref, tuple(call.args))) {
        return whole(*shape, ref);
      }
      return shape_instance(ref, *cls, call.args);
    }
    default:
      return {};
  }
}

std::optional<PickleShape> PickleTree::shape_call(PickleGlobal, PickleRef,
                                                  std::span<const PickleRef>) {
  return std::nullopt;
}
std::optional<PickleShape> PickleTree::shape_global(PickleGlobal) { return std::nullopt; }
PickleShape PickleTree::shape_persistent(PickleRef) {
  return refuse("the pickle refers to an object outside it that is not a torch storage");
}

// The types of Python itself, with the labels that the Python package gives them.
std::optional<PickleShape> PickleTree::shape_python(PickleGlobal function, PickleRef ref,
                                                    std::span<const PickleRef> args) {
  const auto container_of = [&](Kind kind, std::string_view label) -> std::optional<PickleShape> {
    if (args.empty()) return elements(kind, ref, label);  // what was appended to it
    if (args.size() != 1) return std::nullopt;
    const PickleType type = graph_.type(args[0]);
    const bool is_sequence = type == PickleType::kTuple || type == PickleType::kList ||
                             type == PickleType::kSet || type == PickleType::kFrozenSet;
    if (!is_sequence || graph_.has_elements(ref) || !is_settled(args[0], ref)) return std::nullopt;
    return elements(kind, args[0], label);
  };
  if (function.module == "collections") {
    const auto set_items = [&](std::string_view label) {
      PickleShape shape = dict(ref, From::kSetItems, label);
      shape.has_state = true;  // keep_attributes() does
      return shape;
    };
    if (function.name == "OrderedDict" && args.empty()) return set_items("collections.OrderedDict");
    if (function.name == "OrderedDict" && args.size() == 1 && are_pairs(args[0], ref)) {
      PickleShape shape = dict(args[0], From::kPairs, "collections.OrderedDict");
      shape.has_state = true;
      return shape;
    }
    if (function.name == "Counter" && args.size() <= 1) {
      if (args.empty()) return set_items("collections.Counter");
      if (graph_.type(args[0]) == PickleType::kDict && is_settled(args[0], ref)) {
        return dict(args[0], From::kItems, "collections.Counter");
      }
    }
    if (function.name == "defaultdict" && args.size() <= 1) {
      if (args.empty() || graph_.type(args[0]) == PickleType::kNone) {
        return set_items("collections.defaultdict");
      }
      const auto factory = global_of(args[0]);
      if (!factory) return std::nullopt;
      const std::string name(module_of_global(*factory) == "builtins"
                                 ? std::string(factory->name)
                                 : std::string(name_of(*factory)));
      return set_items(keep("collections.defaultdict[" + name + "]"));
    }
    const bool is_empty_first =
        args.empty() ||
        (!args[0].is_literal() && !graph_.has_elements(args[0]) &&
         (graph_.type(args[0]) == PickleType::kTuple || graph_.type(args[0]) == PickleType::kList));
    if (function.name == "deque" && args.size() <= 2 && is_empty_first) {
      const auto longest = args.size() == 2 ? integer(args[1]) : std::nullopt;
      if (args.size() == 2 && !longest) return std::nullopt;
      // Of more elements than it may have, Python keeps the last.
      const bool is_full = longest && (*longest < 0 || graph_.element_count(ref) >
                                                           static_cast<std::uint64_t>(*longest));
      if (is_full) return std::nullopt;
      const std::string_view label =
          longest ? keep("collections.deque[" + std::to_string(*longest) + "]")
                  : std::string_view("collections.deque");
      PickleShape shape = elements(Kind::kList, ref, label);
      shape.has_state = true;
      return shape;
    }
  }
  if (is(function, "_codecs", "encode") && args.size() == 2) {
    // How bytes stand in a pickle of protocol 2.
    return PickleShape{.from = From::kLiteral, .kind = Kind::kBytes, .ref = ref};
  }
  if (module_of_global(function) == "builtins") {
    if (function.name == "set") return container_of(Kind::kSet, {});
    if (function.name == "frozenset") return container_of(Kind::kSet, "frozenset");
    if (function.name == "list") return container_of(Kind::kList, {});
    if (function.name == "tuple") return container_of(Kind::kTuple, {});
    if (function.name == "slice" || function.name == "range" || function.name == "xrange") {
      return elements(Kind::kTuple, graph_.call(ref).args,
                      function.name == "slice" ? "slice" : "range");
    }
    if (function.name == "complex" && args.size() == 2 && real(args[0]) && real(args[1])) {
      return PickleShape{.from = From::kLiteral, .kind = Kind::kComplex128, .ref = ref};
    }
    if (function.name == "bytearray" && args.size() <= 2) {
      if (args.size() != 1) {
        return PickleShape{
            .from = From::kLiteral, .kind = Kind::kBytes, .label = "bytearray", .ref = ref};
      }
      if (graph_.type(args[0]) == PickleType::kBytes) {
        return labelled(literal(args[0]), "bytearray");
      }
      if (graph_.type(args[0]) == PickleType::kCall && encoded_latin(args[0])) {
        return PickleShape{
            .from = From::kLiteral, .kind = Kind::kBytes, .label = "bytearray", .ref = args[0]};
      }
    }
    if (function.name == "bytes" && args.empty()) {
      return PickleShape{.from = From::kLiteral, .kind = Kind::kBytes, .ref = ref};
    }
  }
  if (is(function, "copyreg", "_reconstructor") && args.size() == 3) {
    // With another base, it calls the __init__ of that.
    const auto cls = global_of(args[0]);
    const auto base = global_of(args[1]);
    if (cls && base && is(*base, "builtins", "object")) {
      return shape_instance(ref, *cls, graph_.call(ref).args);
    }
  }
  if (function.module == "pathlib" || function.module == "pathlib._local") {
    std::string path;
    for (const PickleRef part : args) {
      const auto name = text_of(part);
      if (!name) return std::nullopt;
      if (!path.empty() && !path.ends_with('/')) path += '/';
      path += *name;
    }
    return text(keep(std::move(path)), keep("pathlib." + std::string(function.name)));
  }
  return std::nullopt;
}

std::optional<PickleShape> PickleTree::shape_numpy(PickleGlobal function, PickleRef ref,
                                                   std::span<const PickleRef> args) {
  if (is_numpy(function, "multiarray", "_reconstruct") && graph_.state(ref) != nullptr) {
    PickleShape shape = tensor(ref);
    shape.has_state = true;
    return shape;
  }
  if (is_numpy(function, "numeric", "_frombuffer") && args.size() == 4) return tensor(ref);
  if (is_numpy(function, "multiarray", "scalar") && args.size() == 2) {
    const auto code = numpy_code(args[0]);
    if (!code || !parse_numpy_type(*code)) return std::nullopt;
    return tensor(ref, keep(numpy_scalar(*code)));
  }
  if (function.module == "numpy" && function.name == "dtype" && !args.empty()) {
    if (auto element = numpy_element(ref, 0)) {
      if (element->name.starts_with('|')) element->name.erase(0, 1);
      PickleShape shape = text(keep(std::move(element->name)), "numpy.dtype");
      shape.has_state = true;
      return shape;
    }
  }
  return std::nullopt;
}

// An instance of a class that nobody imports: its fields are what it had in its __dict__.
PickleShape PickleTree::shape_instance(PickleRef ref, PickleGlobal cls, PickleRef args) {
  const std::string_view label = name_of(cls);
  note_path(label);
  const PickleRef* const state = graph_.state(ref);
  const auto given = tuple(args);
  const bool is_plain = !graph_.has_elements(ref) && items_of(ref).empty();
  const bool is_object = graph_.type(ref) == PickleType::kCall || given.empty();
  if (is_plain && is_object && state != nullptr && graph_.type(*state) == PickleType::kDict &&
      is_settled(*state, ref)) {
    const auto pairs = elements_of(*state);
    if (are_keys(pairs, true)) {
      std::vector<Field> named;
      for (std::size_t i = 0; i < pairs.size(); i += 2) {
        named.push_back({key_of(pairs[i], true)->text, pairs[i + 1]});
      }
      return fields(label, named);
    }
  }
  if (is_plain && state == nullptr && is_object) return fields(label, {});
  // A namedtuple, whose class has the names of the fields.
  if (is_plain && state == nullptr) return elements(Kind::kTuple, args, label);
  std::vector<Field> named;
  if (!given.empty() && graph_.type(ref) == PickleType::kNew) named.push_back({"args", args});
  add_parts(named, ref, {});
  return fields(label, named);
}

// What was set on an object, but for what `shape` shows already.
void PickleTree::add_parts(std::vector<Field>& named, PickleRef ref, const PickleShape& shape) {
  const auto is_shown = [&](From from) { return shape.from == from && shape.ref == ref; };
  const PickleRef* const state = graph_.state(ref);
  if (state != nullptr && !shape.has_state) named.push_back({"state", *state});
  if (graph_.has_elements(ref) && !is_shown(From::kElements)) {
    named.push_back({"elements", made(elements(Kind::kList, ref, {}))});
  }
  if (!items_of(ref).empty() && !is_shown(From::kSetItems)) {
    named.push_back({"items", made(dict(ref, From::kSetItems, {}))});
  }
}

// `shape`, or a record of it and of what else was set on the object.
PickleShape PickleTree::whole(const PickleShape& shape, PickleRef ref) {
  std::vector<Field> named;
  // shape_instance() has all parts.
  if (shape.from != From::kFields) add_parts(named, ref, shape);
  if (named.empty()) return shape;
  named.insert(named.begin(), {"data", made(shape)});
  return fields(shape.label, named);
}

PickleShape PickleTree::shape_opaque(PickleRef ref, PickleGlobal function, PickleRef args) {
  const std::string_view name = name_of(function);
  const bool is_named = global_of(graph_.call(ref).callable).has_value();
  note_call(is_named ? name : kUnnamedCall);
  std::vector<Field> named;
  named.push_back({"args", args});
  add_parts(named, ref, {});
  return fields(keep("call:" + std::string(name)), named);
}

void PickleTree::note_call(std::string_view name) {
  ++call_count_;
  if (first_call_.empty()) first_call_ = name;
  code_.add_call(name);
  note_path(name);
}

void PickleTree::note_path(std::string_view name) {
  if (code_.wants_path(name)) code_.set_path(name, path());
}

std::optional<KeyView> PickleTree::key_of(PickleRef ref, bool is_field) {
  if (!ref.is_literal()) return std::nullopt;
  const PickleLiteral literal = graph_.literal(ref);
  if (is_text(literal.type)) {
    const auto text = text_of(ref);
    return text ? std::optional(KeyView::of(*text)) : std::nullopt;
  }
  const bool is_int = literal.type == PickleType::kInt || literal.type == PickleType::kBool;
  return is_int && !is_field ? std::optional(KeyView::of(literal.integer)) : std::nullopt;
}

bool PickleTree::are_keys(std::span<const PickleRef> items, bool are_fields) {
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (!key_of(items[i], are_fields)) return false;
  }
  return true;
}

// Arrays of numpy.

// "f4" of numpy.dtype('f4', False, True).
std::optional<std::string_view> PickleTree::numpy_code(PickleRef ref) {
  if (graph_.type(ref) != PickleType::kCall) return std::nullopt;
  const auto function = global_of(graph_.call(ref).callable);
  if (!function || function->module != "numpy" || function->name != "dtype") return std::nullopt;
  const auto args = args_of(ref);
  return args.empty() ? std::nullopt : text_of(args[0]);
}

// The state of a dtype is (version, order, (base, shape) of a subarray, names of fields,
// {name: (dtype, offset)}, bytes, alignment, flags), and ({}, (unit, count, ...)) for dates.
std::optional<PickleTree::NumpyElement> PickleTree::numpy_element(PickleRef ref, int depth) {
  const auto code = numpy_code(ref);
  if (!code || error_ || depth > kMaxFieldNesting) return std::nullopt;
  const PickleRef* const state = graph_.state(ref);
  const auto parts = state == nullptr ? std::span<const PickleRef>() : tuple(*state);
  const auto order = parts.size() > 1 ? text_of(parts[1]) : std::nullopt;
  std::string name(order.value_or(""));
  const auto type = parse_numpy_type(name += *code);
  if (!type) return std::nullopt;
  if (parts.size() > 8 && tuple(parts[8]).size() == 2) {
    const auto dates = tuple(tuple(parts[8])[1]);
    const auto unit = dates.size() > 1 ? bytes_of(dates[0]) : std::nullopt;
    const auto count = unit ? integer(dates[1]) : std::nullopt;
    if (count && as_text(*unit) != "generic") {
      count_steps(unit->size() / kMadeBytesPerStep);
      name += '[' + (*count == 1 ? std::string() : std::to_string(*count));
      name.append(as_text(*unit)) += ']';
    }
  }
  if (parts.size() > 4 && is_tuple(parts[3])) {
    auto fields = numpy_fields(parts[3], parts[4], type->bytes, depth);
    if (!fields) return std::nullopt;
    name = std::move(*fields);
  }
  std::string axes;
  if (parts.size() > 4 && tuple(parts[2]).size() == 2) {
    std::vector<std::uint64_t> shape;
    const bool is_shape = read_sizes(tuple(parts[2])[1], shape);
    auto base = is_shape ? numpy_element(tuple(parts[2])[0], depth + 1) : std::nullopt;
    if (!base) return std::nullopt;
    for (const std::uint64_t axis : shape) axes += std::to_string(axis) + ", ";
    if (!axes.empty()) axes.resize(axes.size() - (shape.size() == 1 ? 1 : 2));
    name = std::move(base->name);
  }
  return NumpyElement{*type, std::move(name), std::move(axes)};
}

// As a .npy file says it: [('a', '<f4'), ('b', '<i8', (3,))]. Nothing if fields overlap.
std::optional<std::string> PickleTree::numpy_fields(PickleRef names, PickleRef fields,
                                                    std::uint64_t bytes, int depth) {
  if (graph_.type(fields) != PickleType::kDict) return std::nullopt;
  std::string all = "[";
  std::uint64_t at = 0;
  const auto pad_to = [&](std::uint64_t offset) {
    if (offset > at) all += "('', '|V" + std::to_string(offset - at) + "'), ";
  };
  const auto of = elements_of(fields);
  for (const PickleRef each : tuple(names)) {
    count_steps(of.size());
    const auto name = text_of(each);
    std::span<const PickleRef> place;
    for (std::size_t i = 0; name && i < of.size(); i += 2) {
      if (text_of(of[i]) == name) place = tuple(of[i + 1]);
    }
    const auto offset = place.size() == 2 ? integer(place[1]) : std::nullopt;
    const auto element = offset ? numpy_element(place[0], depth + 1) : std::nullopt;
    if (!element || *offset < 0 || static_cast<std::uint64_t>(*offset) < at) return std::nullopt;
    // Fields may share a name or a type of half a megabyte.
    count_steps((name->size() + element->name.size()) / kMadeBytesPerStep);
    if (error_) return std::nullopt;
    pad_to(static_cast<std::uint64_t>(*offset));
    at = static_cast<std::uint64_t>(*offset) + element->type.bytes;
    const bool is_plain = !element->name.starts_with('[');
    all += '(' + repr(*name) + ", " + (is_plain ? repr(element->name) : element->name);
    if (!element->axes.empty()) all += ", (" + element->axes + ')';
    all += "), ";
  }
  if (at > bytes) return std::nullopt;
  pad_to(bytes);
  if (all.size() > 1) all.resize(all.size() - 2);
  return all + ']';
}

bool PickleTree::read_numpy_dtype(PickleRef ref, ForeignTensor& tensor, std::string& missing) {
  auto element = numpy_element(ref, 0);
  if (!element || element->type.bytes == 0) {
    return missing = "its dtype has no counterpart here", false;
  }
  tensor.dtype = element->type.dtype;
  if (tensor.dtype == DType::kOpaque) {
    tensor.block = {keep(std::move(element->name)), 1,
                    static_cast<std::uint32_t>(element->type.bytes)};
    give_axis(tensor);
  }
  if (element->type.is_swapped) tensor.flags |= kStorageSwapped;
  missing.clear();
  return true;
}

void PickleTree::give_axis(ForeignTensor& tensor) {
  if (tensor.dtype != DType::kOpaque || !tensor.shape.empty()) return;
  tensor.shape.push_back(1);
  tensor.strides.clear();
  note(Note::Kind::kWarning, "This has no axes; as it is opaque here, it is shown with one.");
}

bool PickleTree::read_array(PickleRef ref, ForeignTensor& tensor, std::string& missing) {
  const auto args = args_of(ref);
  PickleRef dtype = ref;
  PickleRef data = ref;
  bool is_fortran = false;
  missing = "its array is not one that numpy writes";
  if (const PickleRef* state = graph_.state(ref)) {  // (version, shape, dtype, is_fortran, bytes)
    const auto parts = tuple(*state);
    if (parts.size() != 5) return false;
    if (!read_sizes(parts[1], tensor.shape)) return false;
    dtype = parts[2];
    const auto order = boolean(parts[3]);
    if (!order) return false;
    is_fortran = *order;
    data = parts[4];
  } else if (args.size() == 4) {  // _frombuffer(bytes, dtype, shape, order)
    if (!read_sizes(args[2], tensor.shape)) return false;
    data = args[0];
    dtype = args[1];
    is_fortran = text_of(args[3]) == "F";
  } else if (args.size() == 2) {  // scalar(dtype, bytes)
    dtype = args[0];
    data = args[1];
  } else {
    return false;
  }
  if (!read_numpy_dtype(dtype, tensor, missing)) return false;
  if (is_fortran && tensor.shape.size() > 1) {
    if (tensor.dtype == DType::kOpaque) {
      return missing = "it has Fortran order and elements that are no numbers", false;
    }
    std::uint64_t stride = 1;
    for (const std::uint64_t axis : tensor.shape) {
      tensor.strides.push_back(stride);
      stride *= std::max<std::uint64_t>(axis, 1);
    }
  }
  const auto needed = tensor_bytes(tensor.dtype, tensor.shape, tensor.block);
  const auto found = bytes_of(data);
  if (!found) {
    missing = "it holds Python objects, or its bytes are not in the pickle";
    return false;
  }
  const ByteSpan bytes = *found;
  if (!needed || bytes.size() != *needed) {
    missing = "its bytes do not fit its shape";
    return false;
  }
  const auto place = place_bytes(bytes);
  if (!place) return missing = "its bytes cannot be kept", false;
  tensor.file = place->file;
  tensor.offset = place->offset;
  missing.clear();
  return true;
}

std::optional<ByteSpan> PickleTree::bytes_of(PickleRef ref) {
  if (!ref.is_literal()) {
    if (graph_.type(ref) != PickleType::kCall) return std::nullopt;
    auto decoded = encoded_latin(ref);
    if (!decoded) return std::nullopt;
    latin_ = std::move(*decoded);
    return as_bytes(latin_);
  }
  const PickleLiteral literal = graph_.literal(ref);
  switch (literal.type) {
    case PickleType::kBytes:
    case PickleType::kByteArray:
      return literal.bytes;
    case PickleType::kOldText:
      return as_bytes(unescaped(literal));
    default:
      return std::nullopt;
  }
}

// What _codecs.encode(text, 'latin1') gives: a byte for each character.
std::optional<std::string> PickleTree::encoded_latin(PickleRef ref) {
  const auto function = global_of(graph_.call(ref).callable);
  const auto args = args_of(ref);
  if (!function) return std::nullopt;
  // Empty bytes are bytes().
  if (args.empty() && is(*function, "builtins", "bytes")) return std::string();
  const bool is_known =
      is(*function, "_codecs", "encode") || is(*function, "builtins", "bytearray");
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

bool PickleTree::read_tensor(PickleRef ref, ForeignTensor& tensor, std::string& missing) {
  return read_array(ref, tensor, missing);
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
