#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "espalier/base/ascii.h"
#include "espalier/map/map_error.h"
#include "espalier/map/rule.h"

namespace espalier {
namespace {

constexpr std::size_t kMaxItems = 64;
constexpr std::size_t kMaxWords = 16;
constexpr std::size_t kMaxParts = 256;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

struct Token {
  enum class Kind : std::uint8_t { kName, kAxes, kSign, kArrow, kComma, kEnd };
  Kind kind = Kind::kEnd;
  std::string text = {};
  /// Whether the name stood in backquotes, so that it is no number or key word.
  bool is_quoted = false;
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<std::vector<Token>> tokens() {
    std::vector<Token> tokens;
    for (;;) {
      while (at_ < text_.size() && text_[at_] == ' ') ++at_;
      if (at_ == text_.size()) {
        tokens.push_back({Token::Kind::kEnd, {}});
        return tokens;
      }
      auto token = next();
      if (!token) return propagate(token);
      tokens.push_back(std::move(*token));
    }
  }

 private:
  // A sign stands by itself, between spaces: names have many characters.
  std::string_view standing_alone() const {
    const std::size_t end = std::min(text_.find_first_of(" ,", at_), text_.size());
    return text_.substr(at_, end - at_);
  }

  Result<Token> next() {
    const char c = text_[at_];
    if (c == ',') {
      ++at_;
      return Token{Token::Kind::kComma, ","};
    }
    if (c == '[') {
      const std::size_t end = text_.find(']', at_);
      if (end == std::string_view::npos) return invalid_map("a ']' is missing");
      Token token{Token::Kind::kAxes, std::string(text_.substr(at_ + 1, end - at_ - 1))};
      at_ = end + 1;
      return token;
    }
    const std::string_view alone = standing_alone();
    if (alone == "<->" || alone == "->" || alone == "<-") {
      at_ += alone.size();
      return Token{Token::Kind::kArrow, std::string(alone)};
    }
    if (alone == "+" || alone == "-" || alone == "*" || alone == "/" || alone == "=") {
      ++at_;
      return Token{Token::Kind::kSign, std::string(alone)};
    }
    return name();
  }

  Result<Token> name() {
    Token token{Token::Kind::kName, {}};
    std::size_t depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '`') {
        const std::size_t end = text_.find('`', at_ + 1);
        if (end == std::string_view::npos) return invalid_map("a '`' is missing");
        token.is_quoted = true;
        token.text += text_.substr(at_ + 1, end - at_ - 1);
        at_ = end;
        continue;
      }
      if (c == '(' || c == '{') ++depth;
      if (depth > 0 && (c == ')' || c == '}')) --depth;
      if (depth == 0 && (c == ' ' || c == ',' || c == '[')) break;
      token.text += c;
    }
    if (depth > 0) return invalid_map("a bracket is not closed in " + in_quotes(token.text));
    return token;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

class RuleParser {
 public:
  RuleParser(std::string_view text, const RuleContext& context) : text_(text), context_(context) {}

  Result<Rule> parse() {
    rule_.text = text_;
    if (text_.size() > kMaxRuleBytes) return invalid_map("the rule is longer than 64 KiB");
    auto tokens = Lexer(text_).tokens();
    if (!tokens) return propagate(tokens);
    tokens_ = std::move(*tokens);
    if (auto ok = find_axis_words(); !ok) return propagate(ok);
    if (peek().kind == Token::Kind::kName && peek().text == "?" && !peek().is_quoted) {
      rule_.is_optional = true;
      ++at_;
    }
    is_left_ = true;
    if (auto ok = parse_side(rule_.left, rule_.drops_left); !ok) return propagate(ok);
    if (peek().kind != Token::Kind::kArrow) return unexpected("'<->', '->' or '<-'");
    const std::string arrow = take().text;
    if (arrow == "->") rule_.direction = Rule::Direction::kLeftToRight;
    if (arrow == "<-") rule_.direction = Rule::Direction::kRightToLeft;
    is_left_ = false;
    if (auto ok = parse_side(rule_.right, rule_.drops_right); !ok) return propagate(ok);
    if (peek().kind != Token::Kind::kEnd) return unexpected("the end of the rule");
    if (auto ok = resolve_words(); !ok) return propagate(ok);
    if (auto ok = check_names(); !ok) return propagate(ok);
    return std::move(rule_);
  }

 private:
  const Token& peek() const { return tokens_[at_]; }
  const Token& take() { return tokens_[at_++]; }
  bool take_sign(std::string_view sign) {
    if (peek().kind != Token::Kind::kSign || peek().text != sign) return false;
    ++at_;
    return true;
  }
  tl::unexpected<Error> unexpected(const std::string& wanted) const {
    const Token& token = peek();
    return invalid_map(
        wanted + " is missing " +
        (token.kind == Token::Kind::kEnd ? "at the end" : "before " + in_quotes(token.text)));
  }

  // The words of axes are sizes in expressions; a name is one only if it is no tensor's.
  Result<void> find_axis_words() {
    sizes_ = context_.sizes;
    for (const Token& token : tokens_) {
      if (token.kind != Token::Kind::kAxes) continue;
      const auto axes = parse_axes(token.text);
      if (!axes) return about_axes(token.text, axes.error());
      for (const std::string& word : words_of(*axes)) sizes_.insert(word);
    }
    return {};
  }

  static tl::unexpected<Error> about_axes(const std::string& text, const Error& error) {
    return invalid_map("[" + text + "]: " + error.message);
  }

  Result<void> parse_side(std::vector<Part>& parts, bool& drops) {
    if (peek().kind == Token::Kind::kName && peek().text == "drop" && !peek().is_quoted) {
      ++at_;
      drops = true;
      return {};
    }
    do {
      Part part;
      if (auto ok = parse_part(part); !ok) return ok;
      parts.push_back(std::move(part));
      if (parts.size() > kMaxParts) return invalid_map("a side has more than 256 parts");
    } while (peek().kind == Token::Kind::kComma && ++at_ > 0);
    return {};
  }

  Result<void> parse_part(Part& part) {
    bool is_subtracted = false;
    for (;;) {
      Term term;
      term.is_subtracted = is_subtracted;
      if (auto ok = parse_term(term); !ok) return ok;
      part.terms.push_back(std::move(term));
      if (part.terms.size() > kMaxParts) return invalid_map("a sum has more than 256 terms");
      if (take_sign("+")) {
        is_subtracted = false;
      } else if (take_sign("-")) {
        is_subtracted = true;
      } else {
        return {};
      }
    }
  }

  Result<void> parse_term(Term& term) {
    bool divides = false;
    for (;;) {
      if (peek().kind != Token::Kind::kName) return unexpected("the name of a tensor");
      if (auto scalar = as_scalar(peek())) {
        term.scalars.emplace_back(std::move(*scalar), divides);
        ++at_;
      } else if (divides) {
        return invalid_map("nothing can be divided by the tensor " + in_quotes(peek().text));
      } else {
        TensorTerm tensor;
        if (auto ok = parse_tensor(tensor); !ok) return ok;
        term.tensors.push_back(std::move(tensor));
      }
      if (term.scalars.size() + term.tensors.size() > kMaxParts) {
        return invalid_map("a product has more than 256 factors");
      }
      if (take_sign("*")) {
        divides = false;
      } else if (take_sign("/")) {
        divides = true;
      } else {
        return {};
      }
    }
  }

  std::optional<Scalar> as_scalar(const Token& token) const {
    if (token.is_quoted) return std::nullopt;
    // What has axes is a tensor, whatever its name.
    if (tokens_[at_ + 1].kind == Token::Kind::kAxes) return std::nullopt;
    auto scalar = parse_scalar(token.text);
    if (!scalar) return std::nullopt;
    const auto words = words_of(*scalar);
    const bool is_known = std::all_of(
        words.begin(), words.end(), [&](const std::string& word) { return sizes_.contains(word); });
    return is_known ? std::optional(std::move(*scalar)) : std::nullopt;
  }

  Result<void> parse_tensor(TensorTerm& tensor) {
    do {
      if (peek().kind != Token::Kind::kName) return unexpected("the name of a tensor");
      Token token = take();
      TensorName name;
      if (!token.is_quoted && (token.text == "zeros" || token.text == "pad")) {
        if (!tensor.names.empty()) return invalid_map("'zeros' and 'pad' have no other names");
        tensor.kind = token.text == "zeros" ? TensorTerm::Kind::kZeros : TensorTerm::Kind::kPad;
      } else {
        if (tensor.names.empty() && token.text.starts_with('@')) {
          tensor.is_looked_up = true;
          token.text.erase(0, 1);
        }
        if (token.text.ends_with('?')) {
          name.is_optional = true;
          token.text.pop_back();
        }
        auto pattern = parse_name(token.text);
        if (!pattern) return propagate(pattern);
        name.pattern = std::move(*pattern);
      }
      if (peek().kind == Token::Kind::kAxes) {
        auto axes = parse_axes(take().text);
        if (!axes) return propagate(axes);
        name.axes = std::move(*axes);
      } else if (!tensor.names.empty()) {
        name.axes = tensor.names.front().axes;
      }
      tensor.names.push_back(std::move(name));
    } while (take_sign("="));
    if (tensor.kind != TensorTerm::Kind::kTensor && !tensor.axes()) {
      return invalid_map("'zeros' and 'pad' need axes: zeros [n]");
    }
    if (tensor.names.front().is_optional && tensor.names.size() > 1) {
      return invalid_map("the first name of a tie is the one that is written, so it has no '?'");
    }
    if (peek().kind == Token::Kind::kName && peek().text == "as" && !peek().is_quoted) {
      ++at_;
      const auto dtype =
          peek().kind == Token::Kind::kName ? dtype_from_name(peek().text) : std::nullopt;
      if (!dtype) return unexpected("a dtype such as bf16");
      tensor.as = *dtype;
      ++at_;
    }
    return {};
  }

  Result<NamePattern> parse_name(std::string_view text) {
    if (text.empty()) return invalid_map("a name is empty");
    std::vector<NamePattern::Item> items;
    while (!text.empty()) {
      NamePattern::Item item;
      if (text[0] != '{') {
        const std::size_t end = std::min(text.find('{'), text.size());
        item.literal = text.substr(0, end);
        if (item.literal.find('}') != std::string::npos) return invalid_map("a '}' has no '{'");
        text.remove_prefix(end);
      } else {
        const std::size_t end = text.find('}');
        auto capture = parse_capture(text.substr(1, end - 1));
        if (!capture) return propagate(capture);
        text.remove_prefix(end + 1);
        item.capture = std::move(*capture);
      }
      const auto is_number = [](const NamePattern::Item& each) {
        return each.capture && (each.capture->kind == Capture::Kind::kInteger ||
                                each.capture->kind == Capture::Kind::kCopies);
      };
      if (!items.empty() && is_number(items.back()) &&
          (is_number(item) ||
           (!item.literal.empty() && item.literal[0] >= '0' && item.literal[0] <= '9'))) {
        return invalid_map(
            "a number is followed by another number, and nobody can tell them apart");
      }
      items.push_back(std::move(item));
      if (items.size() > kMaxItems) return invalid_map("a name has more than 64 parts");
    }
    return NamePattern(std::move(items));
  }

  Result<Capture> parse_capture(std::string_view text) {
    Capture capture;
    const auto unusable = [&] { return invalid_map("{" + std::string(text) + "} is no capture"); };
    if (text.starts_with('|')) {
      capture.kind = Capture::Kind::kEither;
      capture.texts = split(text.substr(1), '|');
      return capture;
    }
    const std::size_t colon = text.find(':');
    if (colon != std::string_view::npos) {
      capture.kind = Capture::Kind::kChoice;
      capture.word = text.substr(0, colon);
      capture.texts = split(text.substr(colon + 1), '|');
    } else if (text.ends_with("...")) {
      capture.kind = Capture::Kind::kPath;
      capture.word = text.substr(0, text.size() - 3);
    } else if (text.ends_with('*')) {
      capture.kind = Capture::Kind::kText;
      capture.word = text.substr(0, text.size() - 1);
    } else if (text.ends_with('=')) {
      capture.kind = Capture::Kind::kCopies;
      capture.word = text.substr(0, text.size() - 1);
    } else if (const auto table = context_.tables.find(text); table != context_.tables.end()) {
      capture.kind = Capture::Kind::kChoice;
      capture.word = text;
      capture.texts = is_left_ ? table->second.left : table->second.right;
    } else {
      return parse_integer(text);
    }
    if (!is_identifier(capture.word)) return unusable();
    return capture;
  }

  // i, i+5, 6*b, 6*b+j, 6*b+j+5.
  static Result<Capture> parse_integer(std::string_view text) {
    Capture capture;
    const auto unusable = [&] { return invalid_map("{" + std::string(text) + "} is no capture"); };
    const auto number = [](std::string_view digits) -> std::optional<std::int64_t> {
      std::int64_t value = 0;
      const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      const bool is_whole = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
      if (!is_whole || value < 0 || value > kMaxNameFactor) return std::nullopt;
      return value;
    };
    auto terms = split(text, '+');
    if (const std::size_t star = terms[0].find('*'); star != std::string::npos) {
      const auto factor = number(terms[0].substr(0, star));
      if (!factor || *factor == 0) return unusable();
      capture.factor = static_cast<std::uint64_t>(*factor);
      terms[0].erase(0, star + 1);
    }
    capture.word = terms[0];
    std::size_t next = 1;
    if (next < terms.size() && is_identifier(terms[next])) capture.low = terms[next++];
    if (next < terms.size()) {
      const auto shift = number(terms[next++]);
      if (!shift) return unusable();
      capture.shift = *shift;
    }
    if (next < terms.size() || !is_identifier(capture.word)) return unusable();
    if (!capture.low.empty() && (capture.factor < 2 || capture.low == capture.word)) {
      return unusable();
    }
    return capture;
  }

  // Matching stays linear, and the reading of a name obvious. Of words that are resolved, because a
  // plain {w} may be a text or a path by what stands elsewhere.
  Result<void> check_names() {
    for (const bool is_left : {true, false}) {
      const char separator = is_left ? context_.left_separator : context_.right_separator;
      for (const Part& part : is_left ? rule_.left : rule_.right) {
        for (const Term& term : part.terms) {
          for (const TensorTerm& tensor : term.tensors) {
            for (const TensorName& name : tensor.names) {
              if (auto ok = check_name(name.pattern, separator); !ok) return ok;
            }
          }
        }
      }
    }
    return {};
  }

  static Result<void> check_name(const NamePattern& name, char separator) {
    bool has_path = false;
    bool has_text = false;  // in this segment
    for (const NamePattern::Item& item : name.items()) {
      if (!item.capture) {
        if (item.literal.find(separator) != std::string::npos) has_text = false;
      } else if (item.capture->kind == Capture::Kind::kPath) {
        if (has_path) return invalid_map("a name has two captures of whole segments");
        has_path = true;
        has_text = false;
      } else if (item.capture->kind == Capture::Kind::kText) {
        if (has_text) return invalid_map("a segment of a name has two captures of text");
        has_text = true;
      }
    }
    return {};
  }

  // Numbers the words, and lets a plain {w} be what {w:a|b}, {w*} or {w...} say elsewhere.
  Result<void> resolve_words() {
    std::map<std::string, Capture> definitions;
    Result<void> ok = {};
    for_each_item([&](NamePattern::Item& item) {
      if (item.capture->kind == Capture::Kind::kInteger ||
          item.capture->kind == Capture::Kind::kEither || !ok) {
        return;
      }
      const auto [found, is_new] = definitions.emplace(item.capture->word, *item.capture);
      const bool is_same_kind = found->second.kind == item.capture->kind &&
                                found->second.texts.size() == item.capture->texts.size();
      if (!is_new && !is_same_kind) {
        ok = invalid_map("{" + item.capture->word + "} has two meanings");
      }
    });
    for_each_item([&](NamePattern::Item& item) {
      Capture& capture = *item.capture;
      if (capture.kind == Capture::Kind::kEither || !ok) return;
      if (const auto found = definitions.find(capture.word);
          found != definitions.end() && capture.kind == Capture::Kind::kInteger) {
        if (capture.factor != 1 || capture.shift != 0 || !capture.low.empty()) {
          ok = invalid_map("{" + capture.word + "} has two meanings");
          return;
        }
        capture = found->second;
      }
      item.word = number_of(capture.word);
      if (capture.low.empty()) return;
      if (definitions.contains(capture.low)) {
        ok = invalid_map("{" + capture.low + "} has two meanings");
        return;
      }
      item.low = number_of(capture.low);
    });
    if (ok && rule_.words.size() > kMaxWords)
      return invalid_map("a rule has more than 16 captures");
    return ok;
  }

  std::size_t number_of(const std::string& word) {
    const auto found = std::find(rule_.words.begin(), rule_.words.end(), word);
    if (found != rule_.words.end()) return static_cast<std::size_t>(found - rule_.words.begin());
    rule_.words.push_back(word);
    return rule_.words.size() - 1;
  }

  template <class Visit>
  void for_each_item(const Visit& visit) {
    for (std::vector<Part>* side : {&rule_.left, &rule_.right}) {
      for (Part& part : *side) {
        for (Term& term : part.terms) {
          for (TensorTerm& tensor : term.tensors) {
            for (TensorName& name : tensor.names) {
              std::vector<NamePattern::Item> items(name.pattern.items().begin(),
                                                   name.pattern.items().end());
              for (NamePattern::Item& item : items) {
                if (item.capture) visit(item);
              }
              name.pattern = NamePattern(std::move(items));
            }
          }
        }
      }
    }
  }

  std::string_view text_;
  const RuleContext& context_;
  std::set<std::string, std::less<>> sizes_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  bool is_left_ = true;
  Rule rule_;
};

}  // namespace

Result<Rule> parse_rule(std::string_view text, const RuleContext& context) {
  return RuleParser(text, context).parse();
}

}  // namespace espalier
