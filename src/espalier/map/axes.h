// The axes of a tensor in a key map: words for what they are made of.
//
//   [(h p 2) n]   two axes; the first is h * p * 2 long, and h is its slowest part
//   [q+k+k n]     three parts, one after the other, along the first axis
//
// Two tensors whose axes are made of the same words hold the same elements in another order.
#ifndef ESPALIER_MAP_AXES_H_
#define ESPALIER_MAP_AXES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"

namespace espalier {

struct AxisTerm;

/// A sum: parts that stand one after the other along one axis. Mostly there is one.
struct Axis {
  std::vector<AxisTerm> terms;
};

/// One part of an axis.
struct AxisTerm {
  enum class Kind : std::uint8_t {
    kWord,     // n
    kNumber,   // 2
    kRest,     // ...: as many axes as are left
    kProduct,  // (h p 2): axes joined to one, the first the slowest
  };
  Kind kind = Kind::kWord;
  std::string word = {};
  std::uint64_t number = 0;
  /// -n: the elements in reverse order.
  bool is_reversed = false;
  std::vector<Axis> product = {};
};

using Axes = std::vector<Axis>;

/// The sizes of words that are known.
using Sizes = std::map<std::string, std::uint64_t, std::less<>>;

/// Parses the text between brackets. kMapInvalid, with a message that says what is wrong there.
[[nodiscard]] Result<Axes> parse_axes(std::string_view text);

/// The text that parse_axes() takes, with single spaces.
std::string to_string(const Axes& axes);

/// Every word of the axes, in order, with repetitions.
std::vector<std::string> words_of(const Axes& axes);

/// Whether the axes have a "...".
bool has_rest(const Axes& axes);

/// Puts words for the single axes in place of "...", so that there are `rank` axes. Nothing if
/// there are too many already, or too few without "...".
std::optional<Axes> with_rank(const Axes& axes, std::size_t rank);

/// Finds sizes that follow from a tensor's shape, which has as many axes as `axes`, and adds them
/// to `sizes`. kMapShape if the shape contradicts what is known, with a message that names the
/// axis. Call it again when other tensors have added sizes.
[[nodiscard]] Result<void> solve(const Axes& axes, std::span<const std::uint64_t> shape,
                                 Sizes& sizes);

/// The first word whose size is not known.
std::optional<std::string> unknown_word(const Axes& axes, const Sizes& sizes);

/// The shape of a tensor, all of whose words are known. kMapShape if it does not fit 64 bits.
[[nodiscard]] Result<std::vector<std::uint64_t>> shape_of(const Axes& axes, const Sizes& sizes);

/// A part of a cell: a word, or a number larger than 1, which pairs by its value.
struct Atom {
  std::string id;
  std::uint64_t size = 1;
  /// Elements of the tensor from one step to the next; negative if the part is reversed.
  std::int64_t stride = 0;
  /// The axis of the tensor that it is a part of.
  std::size_t axis = 0;
};

/// One choice of a term for every sum of the axes: a block of the tensor's elements.
struct Cell {
  /// The element of the first step of every atom.
  std::int64_t base = 0;
  std::vector<Atom> atoms;
};

/// Most cells of one tensor.
inline constexpr std::size_t kMaxCells = 256;

/// The cells, in the order of the text. All sizes must be known, and the shape must fit 63 bits.
/// kMapInvalid if there are more than kMaxCells, or if one has a word twice.
[[nodiscard]] Result<std::vector<Cell>> cells_of(const Axes& axes, const Sizes& sizes);

}  // namespace espalier

#endif  // ESPALIER_MAP_AXES_H_
