#include "espalier/foreign/safetensors/header.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include "espalier/base/counted.h"
#include "espalier/base/utf8.h"
#include "espalier/foreign/safetensors/dtype.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

using rapidjson::SizeType;

// A state machine over the events of the JSON reader. It accepts only the form of a header and
// stops at the first event that does not fit. So unexpected values (an unknown field with a million
// nested arrays) cost nothing.
class HeaderHandler {
 public:
  HeaderHandler(rapidjson::InsituStringStream& stream, const char* json, bool has_escapes,
                const Limits& limits)
      : stream_(stream), json_(json), has_escapes_(has_escapes), limits_(limits) {}

  SafetensorsHeader& header() { return header_; }
  std::optional<Error>& error() { return error_; }

  // The reader is already past these words and past brackets, but still before numbers.
  bool Null() { return misplaced(here() - 4); }
  bool Bool(bool value) { return misplaced(here() - (value ? 4 : 5)); }
  bool Uint(unsigned value) { return number(value); }
  bool Uint64(std::uint64_t value) { return number(value); }
  // The reader reports -0 and other negative numbers as signed, and 1.0, 1e3 and 2^64 as double.
  bool Int(int) { return misplaced(); }
  bool Int64(std::int64_t) { return misplaced(); }
  bool Double(double) { return misplaced(); }
  bool RawNumber(const char*, SizeType, bool) { return misplaced(); }

  bool String(const char* begin, SizeType length, bool) {
    const std::string_view text(begin, length);
    if (state_ == State::kDType) {
      const auto dtype = dtype_from_safetensors(text);
      if (!dtype) {
        // Cut, because the message must stay short whatever the file holds.
        std::size_t shown = std::min<std::size_t>(text.size(), 16);
        while (shown < text.size() && (static_cast<unsigned char>(text[shown]) & 0xC0) == 0x80) {
          --shown;
        }
        return bad("the tensor has the unknown dtype \"" + std::string(text.substr(0, shown)) +
                       (shown < text.size() ? "...\"" : "\""),
                   at(text));
      }
      entry_.dtype = *dtype;
      state_ = State::kField;
      return true;
    }
    if (state_ == State::kMetadataValue) {
      if (!check_text(text)) return false;
      header_.metadata.back().second = text;
      state_ = State::kMetadataKey;
      return true;
    }
    return misplaced(at(text));
  }

  bool Key(const char* begin, SizeType length, bool) {
    const std::string_view text(begin, length);
    switch (state_) {
      case State::kTop:
        if (text == "__metadata__") {
          if (header_.has_metadata) return bad("__metadata__ occurs twice", at(text));
          header_.has_metadata = true;
          state_ = State::kMetadata;
          return true;
        }
        // The two roots count as nodes too.
        if (header_.tensors.size() + header_.metadata.size() + 2 >= limits_.nodes) {
          return too_much("the file has more tensors than Limits::nodes allows", at(text));
        }
        if (!check_name(text)) return false;
        entry_ = {.name = text};
        has_dtype_ = has_shape_ = has_offsets_ = false;
        state_ = State::kTensor;
        return true;
      case State::kField:
        return field(text);
      case State::kMetadataKey:
        if (header_.tensors.size() + header_.metadata.size() + 2 >= limits_.nodes) {
          return too_much("the file has more metadata than Limits::nodes allows", at(text));
        }
        if (!check_name(text)) return false;
        header_.metadata.push_back({text, {}});
        state_ = State::kMetadataValue;
        return true;
      default:
        return misplaced(at(text));
    }
  }

  bool StartObject() {
    switch (state_) {
      case State::kStart:
        state_ = State::kTop;
        return true;
      case State::kTensor:
        state_ = State::kField;
        return true;
      case State::kMetadata:
        state_ = State::kMetadataKey;
        return true;
      default:
        return misplaced(here() - 1);
    }
  }

  bool EndObject(SizeType) {
    if (state_ == State::kField) {
      if (!has_dtype_ || !has_shape_ || !has_offsets_) {
        return bad(std::string("the tensor has no ") + (!has_dtype_   ? "dtype"
                                                        : !has_shape_ ? "shape"
                                                                      : "data_offsets"),
                   at(entry_.name));
      }
      header_.tensors.push_back(entry_);
    }
    state_ = State::kTop;
    return true;
  }

  bool StartArray() {
    if (state_ == State::kShape) {
      state_ = State::kAxis;
      return true;
    }
    if (state_ == State::kOffsets) {
      state_ = State::kOffset;
      return true;
    }
    return misplaced(here() - 1);
  }

  bool EndArray(SizeType) {
    if (state_ == State::kAxis) {
      entry_.shape = header_.shapes.intern(numbers_);
    } else if (numbers_.size() != 2) {
      return bad("data_offsets must be two numbers", here());
    } else {
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
    }
    state_ = State::kField;
    return true;
  }

 private:
  enum class State {
    kStart,
    kTop,
    kTensor,         // After a tensor's name.
    kField,          // In a tensor.
    kDType,          // After "dtype".
    kShape,          // After "shape".
    kAxis,           // In a shape.
    kOffsets,        // After "data_offsets".
    kOffset,         // In data_offsets.
    kMetadata,       // After "__metadata__".
    kMetadataKey,    // In __metadata__.
    kMetadataValue,  // After one of its keys.
  };

  bool field(std::string_view name) {
    bool* seen = nullptr;
    if (name == "dtype") {
      seen = &has_dtype_;
      state_ = State::kDType;
    } else if (name == "shape") {
      seen = &has_shape_;
      state_ = State::kShape;
    } else if (name == "data_offsets") {
      seen = &has_offsets_;
      state_ = State::kOffsets;
    } else {
      return bad("the tensor has a field other than dtype, shape and data_offsets", at(name));
    }
    if (*seen) return bad("the tensor has its " + std::string(name) + " twice", at(name));
    *seen = true;
    numbers_.clear();
    return true;
  }

  bool number(std::uint64_t value) {
    if (state_ == State::kAxis) {
      // Checked per number: a shape of a million axes must not be collected first.
      if (numbers_.size() == limits_.rank) {
        return too_much("the tensor has more than the " + counted(limits_.rank, "axis") +
                            " that Limits::rank allows",
                        here());
      }
    } else if (state_ == State::kOffset) {
      if (numbers_.size() == 2) return bad("data_offsets must be two numbers", here());
    } else {
      return misplaced();
    }
    numbers_.push_back(value);
    return true;
  }

  // The file is UTF-8, but \u escapes may add half a surrogate pair.
  bool check_text(std::string_view text) {
    if (has_escapes_ && find_invalid_utf8(text)) {
      return bad("a \\u escape gives half a character", at(text));
    }
    return true;
  }

  bool check_name(std::string_view text) {
    if (text.size() > limits_.path_bytes) {
      return too_much("a name is longer than the " + counted(limits_.path_bytes, "byte") +
                          " that Limits::path_bytes allows",
                      at(text));
    }
    return check_text(text);
  }

  bool misplaced() { return misplaced(here()); }
  bool misplaced(std::uint64_t offset) {
    switch (state_) {
      case State::kStart:
        return bad("the header must be a JSON object", offset);
      case State::kTensor:
        return bad("a tensor must be a JSON object with dtype, shape and data_offsets", offset);
      case State::kDType:
        return bad("the dtype must be a string", offset);
      case State::kShape:
        return bad("the shape must be an array of numbers", offset);
      case State::kOffsets:
        return bad("data_offsets must be an array of two numbers", offset);
      case State::kAxis:
      case State::kOffset:
        return bad(
            "shapes and data_offsets must hold integers from 0 to 2^64 - 1, written without sign, "
            "fraction or exponent",
            offset);
      case State::kMetadata:
        return bad("__metadata__ must be a JSON object of strings", offset);
      case State::kMetadataValue:
        return bad("the values of __metadata__ must be strings", offset);
      default:
        return bad("the header has an unexpected value", offset);
    }
  }

  bool bad(std::string_view message, std::uint64_t offset) {
    return refuse(ErrorCode::kSafetensorsInvalid, message, offset);
  }
  bool too_much(std::string_view message, std::uint64_t offset) {
    return refuse(ErrorCode::kLimitExceeded, message, offset);
  }
  bool refuse(ErrorCode code, std::string_view message, std::uint64_t offset) {
    std::string path;
    if (state_ >= State::kTensor && state_ <= State::kOffset) {
      append_path(path, KeyView::of(entry_.name), DigitMark::kNever);
    }
    error_ = Error{code, offset, std::move(path), message};
    return false;
  }

  // Where the value of the current event starts, in the file.
  std::uint64_t here() const { return kSafetensorsLengthBytes + stream_.Tell(); }
  std::uint64_t at(std::string_view text) const {
    return kSafetensorsLengthBytes + static_cast<std::uint64_t>(text.data() - json_);
  }

  rapidjson::InsituStringStream& stream_;
  const char* json_;
  const bool has_escapes_;
  const Limits& limits_;
  State state_ = State::kStart;
  SafetensorsHeader header_;
  SafetensorsEntry entry_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  std::vector<std::uint64_t> numbers_;
  std::optional<Error> error_;
};

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::span<char> json, const Limits& limits) {
  const std::string_view text(json.data(), json.size() - 1);
  const auto bad = [](std::string_view message, std::uint64_t offset) {
    return fail(ErrorCode::kSafetensorsInvalid, message, kSafetensorsLengthBytes + offset);
  };
  if (text.empty() || text.front() != '{') {
    return bad("the header does not begin with '{', so this is not a safetensors file", 0);
  }
  if (const auto invalid = find_invalid_utf8(text)) return bad("the header is not UTF-8", *invalid);
  // The JSON reader takes a zero byte for the end of the text.
  if (const auto zero = text.find('\0'); zero != std::string_view::npos) {
    return bad("the header contains a zero byte", zero);
  }
  const bool has_escapes = text.find('\\') != std::string_view::npos;

  json.back() = '\0';
  rapidjson::InsituStringStream stream(json.data());
  HeaderHandler handler(stream, json.data(), has_escapes, limits);
  rapidjson::Reader reader;
  // The reader recurses, but the handler stops it below the three levels of a header. It parses in
  // place and needs no memory. (Its iterative mode allocates, and does arithmetic on a null pointer
  // at the first allocation.)
  constexpr unsigned kFlags = rapidjson::kParseInsituFlag | rapidjson::kParseStopWhenDoneFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, handler);
  if (handler.error()) return tl::unexpected<Error>(std::move(*handler.error()));
  if (result.IsError()) {
    std::string reason = rapidjson::GetParseError_En(result.Code());
    if (!reason.empty() && reason.back() == '.') reason.pop_back();
    return bad("the header is not JSON: " + reason, result.Offset());
  }
  const auto rest = text.find_first_not_of(' ', stream.Tell());
  if (rest != std::string_view::npos) {
    return bad("only spaces may follow the JSON in the header", rest);
  }
  return std::move(handler.header());
}

}  // namespace espalier
