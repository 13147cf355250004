// Prints the elements of a tensor: with brackets as numpy does, or as nested JSON arrays.
#ifndef ESPALIER_CLI_SELECTION_ARRAY_TEXT_H_
#define ESPALIER_CLI_SELECTION_ARRAY_TEXT_H_

#include <cstdint>
#include <functional>

#include "cli/selection/slice_spec.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"
#include "espalier/checkpoint_file.h"
#include "espalier/error.h"

namespace espalier::cli {

/// Longer arrays are summarised: each long axis shows its first and last three indices.
inline constexpr std::uint64_t kMaxElements = 1000;

/// Prints elements that have been read; it may outlive the file.
using ArrayText = std::function<void(Output& out)>;
using ArrayJson = std::function<void(JsonWriter& json)>;

/// Reads the elements of a slice of `tensor`, and returns a function that prints them on lines of
/// their own. Reads only the elements that it prints, so a summary of a huge tensor is cheap. With
/// `full`, it prints all elements and holds them in memory. For a placeholder, it prints that the
/// file does not hold the data. Errors: kInvalidSlice if the slice does not fit the tensor; those
/// of reading.
[[nodiscard]] Result<ArrayText> read_array_text(const CheckpointFile& file, const TensorRef& tensor,
                                                const SliceSpec& slice, bool full);

/// The same as nested JSON arrays. Prints null for more than kMaxElements elements without `full`,
/// for an opaque dtype, and for a placeholder.
[[nodiscard]] Result<ArrayJson> read_array_json(const CheckpointFile& file, const TensorRef& tensor,
                                                const SliceSpec& slice, bool full);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_SELECTION_ARRAY_TEXT_H_
