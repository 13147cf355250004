// Elements of a tensor with brackets, as numpy prints them; or as nested JSON arrays.
#ifndef ESPALIER_CLI_ARRAY_TEXT_H_
#define ESPALIER_CLI_ARRAY_TEXT_H_

#include <cstdint>
#include <functional>

#include "json_writer.h"
#include "output.h"
#include "slice_spec.h"

#include "espalier/base/error.h"
#include "espalier/native/checkpoint_file.h"

namespace espalier::cli {

/// Arrays of more elements are summarised: of each long axis, the first and the last three.
inline constexpr std::uint64_t kMaxElements = 1000;

/// What is left to do once elements have been read; it may outlive the file.
using ArrayText = std::function<void(Output& out)>;
using ArrayJson = std::function<void(JsonWriter& json)>;

/// Reads the elements of a slice of `tensor`, and returns what prints them on lines of their own.
/// Reads only what it prints, so that a summary of a huge tensor is cheap; with `full`, all is
/// printed, and held in memory. A placeholder's are said not to be there. kInvalidSlice if the
/// slice does not fit the tensor; the errors of reading.
Result<ArrayText> read_array_text(const CheckpointFile& file, const TensorRef& tensor,
                                  const SliceSpec& slice, bool full);

/// The same, for nested arrays; null if there are more than kMaxElements and `full` is not given,
/// if the dtype is opaque, and for a placeholder.
Result<ArrayJson> read_array_json(const CheckpointFile& file, const TensorRef& tensor,
                                  const SliceSpec& slice, bool full);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_ARRAY_TEXT_H_
