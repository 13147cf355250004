#include "espalier/key_path.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>
#include <system_error>

#include "espalier/base/merge_sort.h"
#include "espalier/base/utf8.h"
#include "espalier/tree/text_error.h"

namespace espalier {
namespace {

/// Parses the segments of one key path. Keeps the whole `text_`, so that messages can count from
/// its beginning.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Key> parse_segment(std::size_t begin, std::size_t end) const {
    const std::string_view segment = text_.substr(begin, end - begin);
    if (segment.empty()) {
      return fail_at(begin,
                     "there is no key between two '/'; remove one, or write '~2' for the empty "
                     "string key");
    }
    if (const auto integer = read_int_key(segment)) return Key(*integer);
    if (segment.starts_with("~2")) {
      const std::string_view marked = segment.substr(2);
      if (marked.empty() || read_int_key(marked)) return Key(marked);
      return fail_at(begin,
                     "'~2' marks a string key that is empty or reads as an integer; this one "
                     "needs no mark: leave it out, or write '~02' for ~2");
    }
    return unescape(begin, end);
  }

  tl::unexpected<Error> fail_at(std::size_t offset, const char* what) const {
    return tl::unexpected<Error>(text_error(ErrorCode::kInvalidKeyPath, text_, offset, what));
  }

 private:
  Result<Key> unescape(std::size_t begin, std::size_t end) const {
    std::string key;
    key.reserve(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      if (text_[i] != '~') {
        key += text_[i];
        continue;
      }
      const char code = i + 1 < end ? text_[i + 1] : '\0';
      if (code == '2') {
        return fail_at(i, "'~2' may only stand at the start of a segment; write '~02' for ~2");
      }
      if (code != '0' && code != '1') {
        return fail_at(i, "'~' must be followed by 0, 1 or 2; write '~0' for the character ~");
      }
      key += code == '0' ? '~' : '/';
      ++i;
    }
    return Key(std::move(key));
  }

  std::string_view text_;
};

}  // namespace

std::optional<std::int64_t> read_int_key(std::string_view segment) {
  const bool is_negative = segment.starts_with('-');
  const std::string_view digits = segment.substr(is_negative ? 1 : 0);
  // An integer has one text, so that "-0" and "007" are none. Nineteen digits fit 64 bits. By hand,
  // because std::from_chars() takes more room than core.wasm has.
  if (digits.empty() || digits.size() > 19) return std::nullopt;
  if (digits.front() == '0' && segment.size() > 1) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  if (value > (std::uint64_t{1} << 63) - (is_negative ? 0 : 1)) return std::nullopt;
  return static_cast<std::int64_t>(is_negative ? 0 - value : value);
}

bool is_plain_key(std::string_view key) {
  if (key.empty() || (key.front() <= '9' && read_int_key(key))) return false;
  return key.find('/') == key.npos && key.find('~') == key.npos;
}

DigitMarks::DigitMarks(std::span<const Key> keys) {
  for (const Key& key : keys) {
    if (key.view().is_int) integers_.push_back(key.view().integer);
  }
  merge_sort_runs(integers_, std::less<>());
}

DigitMarks::DigitMarks(std::vector<std::int64_t> integers) : integers_(std::move(integers)) {
  merge_sort_runs(integers_, std::less<>());
}

DigitMark DigitMarks::of(KeyView key) const {
  const auto integer = key.is_int ? std::nullopt : read_int_key(key.text);
  return integer && !std::binary_search(integers_.begin(), integers_.end(), *integer)
             ? DigitMark::kNever
             : DigitMark::kAlways;
}

void append_segment(std::string& out, const KeyView& key, DigitMark mark) {
  if (key.is_int) {
    std::array<char, 20> digits;  // "-9223372036854775808"
    const auto printed = std::to_chars(digits.data(), digits.data() + digits.size(), key.integer);
    out.append(digits.data(), printed.ptr);
    return;
  }
  if (is_plain_key(key.text)) {
    out += key.text;
    return;
  }
  if (key.text.empty() || (mark == DigitMark::kAlways && read_int_key(key.text))) out += "~2";
  for (const char c : key.text) {
    if (c == '~' || c == '/') {
      out += c == '~' ? "~0" : "~1";
    } else {
      out += c;
    }
  }
}

KeyPath::KeyPath(std::initializer_list<Key> keys) : keys_(keys) {}
KeyPath::KeyPath(std::vector<Key> keys) : keys_(std::move(keys)) {}

Result<KeyPath> KeyPath::parse(std::string_view text) {
  const Parser parser(text);
  if (const auto invalid = find_invalid_utf8(text)) {
    return parser.fail_at(*invalid, "the text is not UTF-8 from here on; convert it to UTF-8");
  }
  KeyPath path;
  if (text.empty() || text == "/") return path;
  const std::size_t stop = text.size() - (text.ends_with('/') ? 1 : 0);
  for (std::size_t begin = text.starts_with('/') ? 1 : 0;;) {
    const std::size_t end = std::min(text.find('/', begin), stop);
    auto key = parser.parse_segment(begin, end);
    if (!key) return propagate(key);
    path.push_back(*std::move(key));
    if (end == stop) return path;
    begin = end + 1;
  }
}

std::string KeyPath::to_string() const {
  std::string text;
  for (const Key& key : keys_) append_path(text, key.view());
  return text;
}

void KeyPath::push_back(Key key) { keys_.push_back(std::move(key)); }
void KeyPath::pop_back() { keys_.pop_back(); }

KeyPath KeyPath::first(std::size_t count) const {
  const auto end = static_cast<std::ptrdiff_t>(std::min(count, size()));
  return KeyPath(std::vector<Key>(keys_.begin(), keys_.begin() + end));
}

KeyPath KeyPath::operator/(Key key) const {
  KeyPath child = *this;
  child.push_back(std::move(key));
  return child;
}

bool KeyPath::starts_with(const KeyPath& ancestor) const {
  return ancestor.size() <= size() && std::equal(ancestor.begin(), ancestor.end(), begin());
}

bool operator==(const KeyPath& a, const KeyPath& b) { return a.keys_ == b.keys_; }

std::strong_ordering operator<=>(const KeyPath& a, const KeyPath& b) {
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (const auto order = a[i] <=> b[i]; order != 0) return order;
  }
  return a.size() <=> b.size();
}

}  // namespace espalier
