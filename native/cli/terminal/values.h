// Describes nodes and tensors in one line, or as members of a JSON object, for every command.
#ifndef ESPALIER_CLI_TERMINAL_VALUES_H_
#define ESPALIER_CLI_TERMINAL_VALUES_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "cli/terminal/colors.h"
#include "cli/terminal/json_writer.h"
#include "espalier/checkpoint.h"
#include "espalier/read/totals.h"

namespace espalier::cli {

/// A scalar's value, exactly: `null`, `true`, `-3`, `0.1`, `(1.0+2.0j)`, `"text"` with escapes,
/// bytes as `0x00ff`. Values longer than `max_bytes` are cut, and their length is shown. Empty for
/// containers and tensors.
std::string scalar_text(const NodeRef& node, std::size_t max_bytes);

/// `f32`; an opaque type shows its block: `opaque(q4_0, 32 in 18 B)`. A long name is shortened,
/// because every node of the tensor repeats it.
std::string dtype_text(const TensorRef& tensor);
/// `[4, 3]`.
std::string shape_text(std::span<const std::uint64_t> shape);
/// A label in quotes after a space, or nothing.
std::string label_text(const NodeRef& node);
/// `rows, -`: axis names, '-' for an axis without a name; empty without axis names. Stops after
/// `max_bytes`.
std::string axis_names_text(const TensorRef& tensor, std::size_t max_bytes);
/// `3 tensors, 1.5 MiB`.
std::string totals_text(const Totals& totals);
/// Describes a node in one line: `tensor f32 [4, 3]`, `int64 3`, `dict "OrderedDict" (3 tensors,
/// 1.5 MiB)`.
std::string node_text(const NodeRef& node, SubtreeTotals& totals, Colors colors = Colors());

/// One element of a tensor, printed like a scalar. Floats get as many digits as an f32 needs, or
/// more if the dtype is wider.
void append_element(std::string& out, DType dtype, std::int64_t value);
void append_element(std::string& out, DType dtype, std::uint64_t value);
void append_element(std::string& out, DType dtype, double value);
void append_element(std::string& out, DType dtype, std::complex<double> value);
void write_element(JsonWriter& json, DType dtype, std::int64_t value);
void write_element(JsonWriter& json, DType dtype, std::uint64_t value);
void write_element(JsonWriter& json, DType dtype, double value);
void write_element(JsonWriter& json, DType dtype, std::complex<double> value);

/// Remembers which tensors' long axis names and block names are already in the document. A tensor
/// may have many nodes, and each would repeat them.
class LongNames {
 public:
  /// Whether to write the names: they are short, or this is the first time.
  bool first(const TensorRef& tensor);

 private:
  std::unordered_set<std::uint32_t> written_;  // by tensor; those with long names only
};

/// Writes the members `path`, `kind`, `label`, and by kind: `value`, `children` (their number), or
/// those of write_tensor_members().
void write_node_members(JsonWriter& json, std::string_view path, const NodeRef& node,
                        LongNames& names);
/// Writes the members `dtype`, `block`, `shape`, `axis_names`, `elements`, `bytes`, `tensor`.
void write_tensor_members(JsonWriter& json, const TensorRef& tensor, LongNames& names);
/// Writes the member `totals`.
void write_totals(JsonWriter& json, const Totals& totals);
/// Writes the members `code`, `message`, `offset`, `path` of an error.
void write_error_members(JsonWriter& json, const Error& error);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TERMINAL_VALUES_H_
