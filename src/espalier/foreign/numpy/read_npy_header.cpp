#include "espalier/foreign/numpy/read_npy_header.h"

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/base/utf8.h"
#include "espalier/foreign/numpy/npy_header.h"
#include "espalier/foreign/numpy/numpy_type.h"

namespace espalier {
namespace {

// Structured elements inside structured elements; NumPy's own descriptions are far flatter.
constexpr int kMaxNesting = 32;
constexpr std::size_t kMaxAxes = 64;

// A grammar of its own for the one Python literal that a header is: a dict with three members.
// Python's would accept expressions, and a search for substrings finds them in field names.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::size_t begin) : text_(text), at_(begin) {}

  Result<NpyArray> run() {
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!error_ && !accept('}')) {
      const std::string_view key = string();
      expect(':');
      bool* has = nullptr;
      if (key == "descr") {
        has = &has_descr;
        descr();
      } else if (key == "fortran_order") {
        has = &has_order;
        array_.is_fortran = boolean();
      } else if (key == "shape") {
        has = &has_shape;
        shape(array_.shape);
      } else {
        refuse("has a member besides descr, fortran_order and shape");
      }
      if (has != nullptr && std::exchange(*has, true)) refuse("has a member twice");
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) refuse("goes on after its dict");
    if (!has_descr || !has_order || !has_shape) refuse("lacks descr, fortran_order or shape");
    if (error_) return tl::unexpected<Error>(std::move(*error_));
    return std::move(array_);
  }

 private:
  void refuse(std::string_view message) {
    if (error_) return;
    error_ = Error{ErrorCode::kForeignInvalid, at_, {}, "the .npy header " + std::string(message)};
  }

  void skip_space() {
    constexpr std::string_view kSpace = " \t\r\n";
    while (at_ < text_.size() && kSpace.find(text_[at_]) != std::string_view::npos) ++at_;
  }

  bool is_next(char c) {
    skip_space();
    return !error_ && at_ < text_.size() && text_[at_] == c;
  }

  bool accept(char c) {
    if (!is_next(c)) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) refuse(std::string("is damaged: it lacks a '") + c + '\'');
  }

  // What is between the quotes, where Python would need no escapes to be resolved: nothing depends
  // on the names that have any.
  std::string_view string() {
    skip_space();
    constexpr std::string_view kPrefixes = "ubr";  // u'...' of Python 2
    if (at_ + 1 < text_.size() && kPrefixes.find(text_[at_]) != std::string_view::npos) ++at_;
    const char quote = is_next('"') ? '"' : '\'';
    expect(quote);
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\') ++at_;
      ++at_;
    }
    if (at_ >= text_.size()) {
      at_ = text_.size();
      refuse("is damaged: a string does not end");
      return {};
    }
    return text_.substr(begin, at_++ - begin);
  }

  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true},
                                      std::pair<std::string_view, bool>{"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    refuse("has a fortran_order that is neither True nor False");
    return false;
  }

  std::uint64_t integer() {
    skip_space();
    std::uint64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, status] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (status != std::errc{}) {
      refuse("has a length that is no number, or too large");
      return 0;
    }
    at_ += static_cast<std::size_t>(end - begin);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2
    return value;
  }

  // (), (3,), (4, 3); a lone number in a field.
  void shape(std::vector<std::uint64_t>& axes) {
    expect('(');
    while (!error_ && !accept(')')) {
      if (axes.size() == kMaxAxes) return refuse("has more than 64 axes");
      axes.push_back(integer());
      if (!accept(',')) return expect(')');
    }
  }

  void descr() {
    skip_space();
    const std::size_t begin = at_;
    NumpyType scalar;
    std::string_view name;
    if (is_next('[')) {
      scalar = fields(0);
      name = text_.substr(begin, at_ - begin);
    } else {
      name = string();
      const auto parsed = parse_numpy_type(name);
      if (!parsed) {
        refuse("has a descr of no type that NumPy stores: '" + std::string(name.substr(0, 100)) +
               "'");
      }
      scalar = parsed.value_or(NumpyType{});
    }
    array_.dtype = scalar.dtype;
    array_.item_bytes = scalar.bytes;
    array_.is_swapped = scalar.is_swapped;
    array_.has_objects = scalar.has_objects;
    if (scalar.dtype != DType::kOpaque) return;
    // Older versions of the format are in Latin-1.
    if (find_invalid_utf8(name)) name = "structured";
    array_.block = {name, 1, static_cast<std::uint32_t>(scalar.bytes)};
  }

  // [('a', '<f4'), (('title', 'b'), '<i2', (3,)), ('c', [('d', '|u1')])]: its size and whether it
  // has objects.
  NumpyType fields(int depth) {
    NumpyType all;
    if (depth == kMaxNesting) {
      refuse("nests its fields too deeply");
      return all;
    }
    expect('[');
    while (!error_ && !accept(']')) {
      expect('(');
      if (accept('(')) {
        string();
        expect(',');
        string();
        accept(',');
        expect(')');
      } else {
        string();
      }
      expect(',');
      NumpyType field;
      if (is_next('[')) {
        field = fields(depth + 1);
      } else if (const auto parsed = parse_numpy_type(string()); parsed) {
        field = *parsed;
      } else {
        refuse("has a field of no type that NumPy stores");
      }
      std::vector<std::uint64_t> axes;
      if (accept(',') && !is_next(')')) {
        if (is_next('(')) {
          shape(axes);
        } else {
          axes.push_back(integer());
        }
        accept(',');
      }
      expect(')');
      std::optional<std::uint64_t> bytes = field.bytes;
      for (const std::uint64_t axis : axes) bytes = bytes ? checked_mul(*bytes, axis) : bytes;
      if (bytes) bytes = checked_add(*bytes, all.bytes);
      constexpr std::uint64_t kMostBytes = 0xFFFFFFFF;  // BlockType::bytes
      if (!bytes || *bytes > kMostBytes) refuse("has elements of more than 4 GiB");
      all.bytes = bytes.value_or(0);
      all.has_objects = all.has_objects || field.has_objects;
      if (!accept(',')) {
        expect(']');
        break;
      }
    }
    return all;
  }

  std::string_view text_;
  std::size_t at_;
  NpyArray array_;
  std::optional<Error> error_;
};

}  // namespace

bool looks_like_npy(ByteSpan front, std::uint64_t) { return as_text(front).starts_with(kNpyMagic); }

Result<std::uint64_t> npy_header_bytes(ByteSpan front) {
  if (!looks_like_npy(front, 0)) {
    return fail(ErrorCode::kForeignInvalid, "the array does not begin as .npy files do", 0);
  }
  if (front.size() < kNpyPreludeBytes) {
    return fail(ErrorCode::kTruncated, "the .npy header is cut; copy or download the file again",
                front.size());
  }
  const int major = std::to_integer<int>(front[6]);
  if (major < 1 || major > 3) {
    return fail(ErrorCode::kUnsupportedVersion,
                "the .npy header has version " + std::to_string(major) + "; 1, 2 and 3 can be read",
                6);
  }
  constexpr std::uint64_t kShort = 10;
  constexpr std::uint64_t kLong = 12;
  const std::uint64_t bytes = major == 1 ? kShort + load_le<std::uint16_t>(front.data() + 8)
                                         : kLong + load_le<std::uint32_t>(front.data() + 8);
  if (bytes > kMaxNpyHeaderBytes) {
    return fail(ErrorCode::kLimitExceeded,
                "the .npy header has " + counted(bytes, "byte") + ", more than the " +
                    std::to_string(kMaxNpyHeaderBytes) + " that are read",
                8);
  }
  return bytes;
}

Result<NpyArray> read_npy_header(ByteSpan header) {
  const std::size_t begin = header[6] == std::byte{1} ? 10 : 12;
  auto array = HeaderParser(as_text(header), begin).run();
  if (array) array->header_bytes = header.size();
  return array;
}

}  // namespace espalier
