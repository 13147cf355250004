// Elements of a tensor with brackets, as numpy prints them; or as nested JSON arrays.
#ifndef ESPALIER_CLI_ARRAY_TEXT_H_
#define ESPALIER_CLI_ARRAY_TEXT_H_

#include <cstdint>

#include "json_writer.h"
#include "output.h"
#include "slice_spec.h"

#include "espalier/base/error.h"
#include "espalier/native/checkpoint_file.h"

namespace espalier::cli {

/// Arrays of more elements are summarised: of each long axis, the first and the last three.
inline constexpr std::uint64_t kMaxElements = 1000;

/// Prints the elements of a slice of `tensor`, which is no placeholder, on lines of their own.
/// Reads only what it prints, so that a summary of a huge tensor is cheap; with `full`, all is
/// printed, and held in memory.
Result<void> print_array(Output& out, const CheckpointFile& file, const TensorRef& tensor,
                         const SliceSpec& slice, bool full);

/// Writes the elements as nested arrays; null if there are more than kMaxElements and `full` is not
/// given, or if the dtype is opaque.
Result<void> write_array(JsonWriter& json, const CheckpointFile& file, const TensorRef& tensor,
                         const SliceSpec& slice, bool full);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_ARRAY_TEXT_H_
