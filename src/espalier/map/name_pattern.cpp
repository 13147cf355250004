#include "espalier/map/name_pattern.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "espalier/base/ascii.h"

namespace espalier {
namespace {

// The decimals at the beginning of a text, if they are a whole number as it is printed.
struct Decimals {
  std::int64_t number = 0;
  std::size_t length = 0;
};

std::optional<Decimals> read_decimals(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  if (length == 0 || (text[0] == '0' && length > 1)) return std::nullopt;
  Decimals decimals{0, length};
  const auto parsed = std::from_chars(text.data(), text.data() + length, decimals.number);
  if (parsed.ec != std::errc() || decimals.number > kMaxNameNumber) return std::nullopt;
  return decimals;
}

}  // namespace

// Tries the items one after the other, and remembers where the rest did not fit: so a name takes
// time linear in its length for each item, whatever the choices are.
class NamePattern::Matcher {
 public:
  Matcher(const NamePattern& pattern, std::string_view name, char separator, CaptureValues& values)
      : items_(pattern.items_), name_(name), separator_(separator), values_(values) {}

  // As deep as a pattern has items, which the parser of rules bounds.
  bool match(std::size_t item, std::size_t at) {
    if (item == items_.size()) return at == name_.size();
    const Item& next = items_[item];
    if (!next.capture) {
      return name_.substr(at).starts_with(next.literal) &&
             match(item + 1, at + next.literal.size());
    }
    switch (next.capture->kind) {
      case Capture::Kind::kInteger:
      case Capture::Kind::kCopies:
        return match_integer(next, item, at);
      case Capture::Kind::kChoice:
      case Capture::Kind::kEither:
        return !has_failed(item, at) && (match_choice(next, item, at) || fails(item, at));
      case Capture::Kind::kText:
      case Capture::Kind::kPath:
        return !has_failed(item, at) && (match_text(next, item, at) || fails(item, at));
    }
    return false;
  }

 private:
  bool match_integer(const Item& item, std::size_t number, std::size_t at) {
    const Capture& capture = *item.capture;
    const auto read = read_decimals(name_.substr(at));
    if (!read || read->number < capture.shift) return false;
    const std::int64_t value = read->number - capture.shift;
    const auto factor = static_cast<std::int64_t>(capture.factor);
    const bool has_low = !capture.low.empty();
    if (!has_low && value % factor != 0) return false;
    if (!match(number + 1, at + read->length)) return false;
    values_[item.word] = {value / factor, {}};
    if (has_low) values_[item.low] = {value % factor, {}};
    return true;
  }

  bool match_choice(const Item& item, std::size_t number, std::size_t at) {
    const auto& texts = item.capture->texts;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (!name_.substr(at).starts_with(texts[i]) || !match(number + 1, at + texts[i].size())) {
        continue;
      }
      if (item.capture->kind == Capture::Kind::kChoice) {
        values_[item.word] = {static_cast<std::int64_t>(i), {}};
      }
      return true;
    }
    return false;
  }

  bool match_text(const Item& item, std::size_t number, std::size_t at) {
    const bool is_path = item.capture->kind == Capture::Kind::kPath;
    // A file's label ends with "::".
    if (is_path && at > 0 && name_[at - 1] != separator_ && name_[at - 1] != ':') return false;
    for (std::size_t end = at + 1; end <= name_.size(); ++end) {
      if (!is_path && name_[end - 1] == separator_) return false;
      if (is_path && end < name_.size() && name_[end] != separator_) continue;
      if (!match(number + 1, end)) continue;
      values_[item.word] = {0, std::string(name_.substr(at, end - at))};
      return true;
    }
    return false;
  }

  bool has_failed(std::size_t item, std::size_t at) const {
    return !failed_.empty() && failed_[item * (name_.size() + 1) + at];
  }
  bool fails(std::size_t item, std::size_t at) {
    if (failed_.empty()) failed_.resize(items_.size() * (name_.size() + 1));
    failed_[item * (name_.size() + 1) + at] = true;
    return false;
  }

  const std::vector<Item>& items_;
  const std::string_view name_;
  const char separator_;
  CaptureValues& values_;
  std::vector<bool> failed_;
};

bool NamePattern::match(std::string_view name, char separator, CaptureValues& values) const {
  // Most names fit few patterns: the ends tell at once.
  if (!items_.empty() && !items_.back().capture && !name.ends_with(items_.back().literal)) {
    return false;
  }
  return Matcher(*this, name, separator, values).match(0, 0);
}

std::string NamePattern::write(const CaptureValues& values) const {
  std::string name;
  for (const Item& item : items_) {
    if (!item.capture) {
      name += item.literal;
      continue;
    }
    const Capture& capture = *item.capture;
    switch (capture.kind) {
      case Capture::Kind::kInteger: {
        const std::int64_t low = capture.low.empty() ? 0 : values[item.low]->number;
        name +=
            std::to_string(static_cast<std::int64_t>(capture.factor) * values[item.word]->number +
                           low + capture.shift);
        break;
      }
      case Capture::Kind::kCopies:
        name += std::to_string(values[item.word]->number);
        break;
      case Capture::Kind::kChoice:
        name += capture.texts[static_cast<std::size_t>(values[item.word]->number)];
        break;
      case Capture::Kind::kEither:
        name += capture.texts.front();
        break;
      case Capture::Kind::kText:
      case Capture::Kind::kPath:
        name += values[item.word]->text;
        break;
    }
  }
  return name;
}

std::string_view NamePattern::last_segment(char separator) const {
  if (items_.empty() || items_.back().capture) return {};
  const std::string_view last = items_.back().literal;
  const std::size_t end = last.rfind(separator);
  return end == std::string_view::npos ? std::string_view() : last.substr(end + 1);
}

bool NamePattern::has_word(std::size_t word) const {
  return std::any_of(items_.begin(), items_.end(), [&](const Item& item) {
    if (!item.capture || item.capture->kind == Capture::Kind::kEither) return false;
    return item.word == word || (!item.capture->low.empty() && item.low == word);
  });
}

}  // namespace espalier
