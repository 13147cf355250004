#include "espalier/base/json_tree.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include <rapidjson/reader.h>

#include "espalier/base/real_text.h"

namespace espalier {

std::optional<bool> JsonRef::boolean() const {
  if (node_->type == Type::kTrue) return true;
  return node_->type == Type::kFalse ? std::optional(false) : std::nullopt;
}

std::optional<std::int64_t> JsonRef::int64() const {
  return node_->type == Type::kInteger ? std::optional(node_->integer) : std::nullopt;
}

std::optional<std::uint64_t> JsonRef::uint64() const {
  if (node_->type == Type::kUnsigned) return node_->number;
  if (node_->type != Type::kInteger || node_->integer < 0) return std::nullopt;
  return static_cast<std::uint64_t>(node_->integer);
}

std::optional<double> JsonRef::real() const {
  return node_->type == Type::kReal ? std::optional(node_->real) : std::nullopt;
}

std::optional<std::string_view> JsonRef::text() const {
  if (node_->type != Type::kText) return std::nullopt;
  return std::string_view(node_->text, node_->size);
}

std::size_t JsonRef::size() const { return is_array() || is_object() ? node_->size : 0; }

std::vector<JsonRef::Member> JsonRef::members() const {
  std::vector<Member> members;
  if (!is_object()) return members;
  members.reserve(size());
  const Node* end = node_ + node_->span;
  for (const Node* key = node_ + 1; key != end; key += 1 + key[1].span) {
    members.push_back({{key->text, key->size}, JsonRef(key + 1)});
  }
  return members;
}

std::optional<JsonRef> JsonRef::member(std::string_view name) const {
  if (!is_object()) return std::nullopt;
  const Node* end = node_ + node_->span;
  for (const Node* key = node_ + 1; key != end; key += 1 + key[1].span) {
    if (std::string_view(key->text, key->size) == name) return JsonRef(key + 1);
  }
  return std::nullopt;
}

// Takes the events of the JSON reader.
class JsonTree::Builder {
 public:
  using Type = JsonRef::Type;

  Builder(std::vector<JsonRef::Node>& nodes, std::uint32_t max_depth, bool has_names)
      : nodes_(nodes), max_depth_(max_depth), has_names_(has_names) {}

  bool is_too_deep() const { return is_too_deep_; }

  bool Null() { return add(Type::kNull); }
  bool Bool(bool value) { return add(value ? Type::kTrue : Type::kFalse); }
  // Numbers come as text: RapidJSON's own doubles are off by a unit in the last place, or, if asked
  // not to be, add to a null pointer.
  bool RawNumber(const char* text, rapidjson::SizeType length, bool) {
    JsonRef::Node number;
    if (is_integer(text, length, number.integer)) {
      number.type = Type::kInteger;
    } else if (is_integer(text, length, number.number)) {
      number.type = Type::kUnsigned;
    } else {
      number.type = Type::kReal;
      number.real = parse_real(text);
      // A name, where the dialect has them: Infinity, -Infinity or NaN.
      const char first = text[text[0] == '-' ? 1 : 0];
      if ((first == 'I' || first == 'N') && !has_names_) return false;
      if (first == 'I') {
        number.real =
            std::copysign(std::numeric_limits<double>::infinity(), text[0] == '-' ? -1 : 1);
      } else if (first == 'N') {
        number.real = std::numeric_limits<double>::quiet_NaN();
      } else if (std::isinf(number.real)) {
        return false;
      }
    }
    nodes_.push_back(number);
    return true;
  }
  // Not called.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    add(Type::kText);
    nodes_.back().size = length;
    nodes_.back().text = text;
    return true;
  }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    return String(text, length, false);
  }
  bool StartObject() { return open(Type::kObject); }
  bool StartArray() { return open(Type::kArray); }
  bool EndObject(rapidjson::SizeType members) { return close(members); }
  bool EndArray(rapidjson::SizeType elements) { return close(elements); }

 private:
  template <class Integer>
  static bool is_integer(const char* text, std::size_t length, Integer& value) {
    const auto parsed = std::from_chars(text, text + length, value);
    return parsed.ec == std::errc() && parsed.ptr == text + length;
  }

  bool add(Type type) {
    nodes_.emplace_back();
    nodes_.back().type = type;
    return true;
  }

  // The reader recurses, so this bounds its stack as well.
  bool open(Type type) {
    is_too_deep_ = open_.size() == max_depth_;
    if (is_too_deep_) return false;
    open_.push_back(static_cast<std::uint32_t>(nodes_.size()));
    return add(type);
  }

  bool close(std::uint32_t size) {
    JsonRef::Node& node = nodes_[open_.back()];
    node.span = static_cast<std::uint32_t>(nodes_.size()) - open_.back();
    node.size = size;
    open_.pop_back();
    return true;
  }

  std::vector<JsonRef::Node>& nodes_;
  const std::uint32_t max_depth_;
  const bool has_names_;
  std::vector<std::uint32_t> open_;
  bool is_too_deep_ = false;
};

Result<JsonTree> JsonTree::parse(std::string_view text, std::uint32_t max_depth,
                                 JsonDialect dialect) {
  // Values are counted in 32 bits, and the reader takes a zero byte for the end of the text.
  if (text.size() >= std::numeric_limits<std::uint32_t>::max() ||
      text.find('\0') != std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument, "the text is not JSON");
  }
  JsonTree tree;
  tree.text_ = std::make_unique<char[]>(text.size() + 1);
  std::copy(text.begin(), text.end(), tree.text_.get());
  rapidjson::InsituStringStream stream(tree.text_.get());
  Builder builder(tree.nodes_, max_depth, dialect == JsonDialect::kOfPython);
  rapidjson::Reader reader;
  constexpr unsigned kFlags = rapidjson::kParseInsituFlag | rapidjson::kParseNumbersAsStringsFlag;
  constexpr unsigned kForPeople =
      kFlags | rapidjson::kParseCommentsFlag | rapidjson::kParseTrailingCommasFlag;
  // One parser for both dialects of programs, which are large: the builder refuses the names.
  constexpr unsigned kOfPython = kFlags | rapidjson::kParseNanAndInfFlag;
  const auto parsed = dialect == JsonDialect::kForPeople ? reader.Parse<kForPeople>(stream, builder)
                                                         : reader.Parse<kOfPython>(stream, builder);
  if (parsed.IsError()) {
    if (builder.is_too_deep()) {
      return fail(ErrorCode::kLimitExceeded, "the JSON text is nested too deeply", parsed.Offset());
    }
    return fail(ErrorCode::kInvalidArgument, "the text is not JSON", parsed.Offset());
  }
  return tree;
}

}  // namespace espalier
