#include "cli/selection/slice_spec.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

#include "espalier/base/counted.h"
#include "espalier/read/slice.h"

namespace espalier::cli {
namespace {

using SliceNumber = std::optional<std::int64_t>;

tl::unexpected<Error> bad_part(std::string_view part) {
  return fail(
      ErrorCode::kInvalidSlice,
      "'" + std::string(part) +
          "' is not a slice; write start:stop:step (with a positive step) or an index for each "
          "axis, separated by commas, as in 0:4,:,::2");
}

// A number, or nothing for empty text.
Result<SliceNumber> parse_number(std::string_view text, std::string_view part) {
  if (text.empty()) return SliceNumber();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return bad_part(part);
  return SliceNumber(value);
}

// Removes the text before the first `separator` from `text` and returns it.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view head = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return head;
}

Result<Slice> parse_part(std::string_view part, bool& is_index) {
  std::string_view rest = part;
  is_index = part.find(':') == std::string_view::npos;
  const auto start = parse_number(cut(rest, ':'), part);
  const auto stop = parse_number(cut(rest, ':'), part);
  const auto step = parse_number(rest, part);
  if (!start || !stop || !step) return bad_part(part);
  Slice slice{*start, *stop, step->value_or(1)};
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (slice.step <= 0 || (is_index && (!slice.start || *slice.start == kMax)))
    return bad_part(part);
  // -1 is the last index: the slice goes from there to the end.
  if (is_index && *slice.start != -1) slice.stop = *slice.start + 1;
  return slice;
}

}  // namespace

Result<SliceSpec> SliceSpec::parse(std::string_view text) {
  SliceSpec spec;
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    bool is_index = false;
    auto slice = parse_part(text.substr(begin, end - begin), is_index);
    if (!slice) return propagate(slice);
    spec.slices_.push_back(*slice);
    spec.is_index_.push_back(is_index);
    begin = end + 1;
  }
  return spec;
}

Result<std::span<const Slice>> SliceSpec::fit(std::span<const std::uint64_t> shape) const {
  if (slices_.size() > shape.size()) {
    return fail(ErrorCode::kInvalidSlice, "the slice has " + counted(slices_.size(), "part") +
                                              " and the tensor has " +
                                              counted(shape.size(), "axis"));
  }
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    if (is_index_[i] && resolve(slices_[i], shape[i]).count != 1) {
      return fail(ErrorCode::kInvalidSlice, "index " + std::to_string(*slices_[i].start) +
                                                " is beyond axis " + std::to_string(i) +
                                                ", which has " + counted(shape[i], "element"));
    }
  }
  return std::span<const Slice>(slices_);
}

}  // namespace espalier::cli
