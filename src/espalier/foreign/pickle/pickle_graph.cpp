#include "espalier/foreign/pickle/pickle_graph.h"

#include <algorithm>

#include "espalier/foreign/pickle/literal.h"

namespace espalier {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The number of `digits` hexadecimal digits at `at`, or -1.
std::int64_t read_hex(std::string_view text, std::size_t at, std::size_t digits) {
  if (digits > text.size() - at) return -1;
  std::int64_t number = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const int digit = hex_digit(text[at + i]);
    if (digit < 0) return -1;
    number = number * 16 + digit;
  }
  return number;
}

// Also of surrogates: those are not UTF-8, and whoever needs text finds out.
void append_utf8(std::vector<char>& out, std::int64_t code) {
  const auto put = [&](std::int64_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

// Python's raw-unicode-escape: Latin-1 with \uXXXX and \UXXXXXXXX.
void unescape_unicode(std::string_view text, std::vector<char>& out) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == 'u' || text[i + 1] == 'U')) {
      const std::size_t digits = text[i + 1] == 'u' ? 4 : 8;
      const std::int64_t code = read_hex(text, i + 2, digits);
      if (code >= 0 && code <= 0x10FFFF) {
        append_utf8(out, code);
        i += 1 + digits;
        continue;
      }
    }
    append_utf8(out, static_cast<unsigned char>(text[i]));
  }
}

// The escapes of Python's bytes.
void unescape_string(std::string_view text, std::vector<char>& out) {
  constexpr std::string_view kEscapes = "abfnrtv\\'\"";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
  const auto is_octal = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '7'; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    char plain = text[i];
    if (plain == '\\' && i + 1 < text.size()) {
      const char escaped = text[++i];
      const std::int64_t code = escaped == 'x' ? read_hex(text, i + 1, 2) : -1;
      const std::size_t known = kEscapes.find(escaped);
      if (code >= 0) {
        plain = static_cast<char>(code);
        i += 2;
      } else if (known != std::string_view::npos) {
        plain = kMeanings[known];
      } else if (is_octal(i)) {
        int number = escaped - '0';
        for (int more = 0; more < 2 && i + 1 < text.size() && is_octal(i + 1); ++more) {
          number = number * 8 + (text[++i] - '0');
        }
        plain = static_cast<char>(number);
      } else {
        out.push_back(plain);
        plain = escaped;
      }
    }
    out.push_back(plain);
  }
}

std::string_view line_at(ByteSpan bytes, std::size_t at) {
  const std::string_view rest = as_text(bytes.subspan(at));
  return rest.substr(0, rest.find('\n'));
}

}  // namespace

PickleType PickleGraph::type(PickleRef ref) const {
  return ref.is_literal() ? literal(ref).type : object(ref).type;
}

PickleLiteral PickleGraph::literal(PickleRef ref) const {
  return read_literal(bytes_, ref.number());
}

std::vector<char> PickleGraph::unescape(const PickleLiteral& literal) {
  std::vector<char> out;
  if (literal.type == PickleType::kText) {
    unescape_unicode(as_text(literal.bytes), out);
  } else {
    unescape_string(as_text(literal.bytes), out);
  }
  return out;
}

const PickleGraph::Extras* PickleGraph::extras(PickleRef ref) const {
  if (ref.is_literal() || object(ref).extras == 0) return nullptr;
  if (object(ref).type == PickleType::kGlobal) return nullptr;
  return &extras_[object(ref).extras - 1];
}

void PickleGraph::append(const Chain& chain, std::vector<PickleRef>& out) const {
  for (std::uint32_t at = chain.first; at != 0; at = batches_[at - 1].next) {
    const auto refs = std::span(refs_).subspan(batches_[at - 1].first, batches_[at - 1].count);
    out.insert(out.end(), refs.begin(), refs.end());
  }
}

std::uint64_t PickleGraph::count(const Chain& chain) const {
  std::uint64_t elements = 0;
  for (std::uint32_t at = chain.first; at != 0; at = batches_[at - 1].next) {
    elements += batches_[at - 1].count;
  }
  return elements;
}

void PickleGraph::elements(PickleRef ref, std::vector<PickleRef>& out) const {
  const Object& from = object(ref);
  switch (from.type) {
    case PickleType::kTuple:
    case PickleType::kFrozenSet: {
      const auto refs = std::span(refs_).subspan(from.a, from.b);
      out.insert(out.end(), refs.begin(), refs.end());
      break;
    }
    case PickleType::kList:
    case PickleType::kDict:
    case PickleType::kSet:
      append({from.a, from.b}, out);
      break;
    default:
      if (const Extras* more = extras(ref)) append(more->elements, out);
  }
}

std::uint64_t PickleGraph::element_count(PickleRef ref) const {
  const Object& from = object(ref);
  switch (from.type) {
    case PickleType::kTuple:
    case PickleType::kFrozenSet:
      return from.b;
    case PickleType::kList:
    case PickleType::kDict:
    case PickleType::kSet:
      return count({from.a, from.b});
    default:
      const Extras* more = extras(ref);
      return more == nullptr ? 0 : count(more->elements);
  }
}

bool PickleGraph::has_elements(PickleRef ref) const {
  const Object& from = object(ref);
  switch (from.type) {
    case PickleType::kTuple:
    case PickleType::kFrozenSet:
      return from.b != 0;
    case PickleType::kList:
    case PickleType::kDict:
    case PickleType::kSet:
      return from.a != 0;
    default:
      const Extras* more = extras(ref);
      return more != nullptr && more->elements.first != 0;
  }
}

std::span<const PickleRef> PickleGraph::tuple(PickleRef ref) const {
  if (ref.is_literal() || object(ref).type != PickleType::kTuple) return {};
  return std::span(refs_).subspan(object(ref).a, object(ref).b);
}

bool PickleGraph::is_changed_since(PickleRef container, PickleRef user) const {
  const Object& changed = object(container);
  if (changed.b == 0) return false;
  // Refs are only appended, so their numbers tell what came first.
  const Extras* const more = extras(user);
  const bool is_state = more != nullptr && more->refs_before != 0 && more->state == container;
  const std::uint32_t used = is_state ? more->refs_before - 1 : object(user).a;
  const Batch& last = batches_[changed.b - 1];
  return last.first + last.count > used;
}

void PickleGraph::items(PickleRef ref, std::vector<PickleRef>& out) const {
  if (const Extras* more = extras(ref)) append(more->items, out);
}

const PickleRef* PickleGraph::state(PickleRef ref) const {
  const Extras* more = extras(ref);
  return more == nullptr || more->refs_before == 0 ? nullptr : &more->state;
}

PickleGlobal PickleGraph::global(PickleRef ref) const {
  const Object& from = object(ref);
  if (from.extras == 0) {  // Two lines after the opcode.
    const std::string_view module = line_at(bytes_, from.a);
    return {module, line_at(bytes_, from.a + module.size() + 1)};
  }
  return {as_text(read_literal(bytes_, from.a).bytes), as_text(read_literal(bytes_, from.b).bytes)};
}

std::optional<PickleRef> PickleGraph::class_of(PickleRef ref) const {
  PickleRef found = ref;
  if (type(ref) == PickleType::kPersistent) {
    const auto parts = tuple(persistent_id(ref));
    if (parts.size() != 4 || !parts[0].is_literal()) return std::nullopt;
    if (as_text(literal(parts[0]).bytes) != "module") return std::nullopt;
    found = parts[1];
  }
  return type(found) == PickleType::kGlobal ? std::optional(found) : std::nullopt;
}

PickleRef PickleGraph::persistent_id(PickleRef ref) const { return refs_[object(ref).a]; }

std::optional<PickleRef> PickleGraph::first_call() const {
  const auto found = std::find_if(objects_.begin(), objects_.end(), [](const Object& object) {
    return object.type == PickleType::kCall || object.type == PickleType::kNew;
  });
  if (found == objects_.end()) return std::nullopt;
  return PickleRef::object(static_cast<std::uint32_t>(found - objects_.begin()));
}

bool PickleGraph::names_something() const {
  return first_call() || std::any_of(objects_.begin(), objects_.end(), [](const Object& object) {
           return object.type == PickleType::kGlobal;
         });
}

PickleCall PickleGraph::call(PickleRef ref) const {
  const Object& from = object(ref);
  return {refs_[from.a], refs_[from.a + 1]};
}

}  // namespace espalier
