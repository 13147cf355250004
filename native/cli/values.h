// Nodes and tensors in one line, or as members of a JSON object: what every command says about
// them.
#ifndef ESPALIER_CLI_VALUES_H_
#define ESPALIER_CLI_VALUES_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "json_writer.h"

#include "espalier/read/checkpoint.h"
#include "espalier/read/totals.h"

namespace espalier::cli {

/// A scalar's value, exactly: `null`, `true`, `-3`, `0.1`, `(1.0+2.0j)`, `"text"` with escapes,
/// bytes as `0x00ff`. Longer ones than `max_bytes` are cut, and their length is said. Empty for
/// containers and tensors.
std::string scalar_text(const NodeRef& node, std::size_t max_bytes);

/// `f32`; an opaque type with its block, `opaque(q4_0, 32 in 18 B)`. A long name is shortened, for
/// every node of the tensor repeats it.
std::string dtype_text(const TensorRef& tensor);
/// `[4, 3]`.
std::string shape_text(std::span<const std::uint64_t> shape);
/// A label in quotes after a space, or nothing.
std::string label_text(const NodeRef& node);
/// `rows, -`: axis names, '-' for one without; empty if there are none. Stops after `max_bytes`.
std::string axis_names_text(const TensorRef& tensor, std::size_t max_bytes);
/// `3 tensors, 1.5 MiB`.
std::string totals_text(const Totals& totals);
/// What a node is, in one line: `tensor f32 [4, 3]`, `int64 3`, `dict "OrderedDict" (3 tensors, 1.5
/// MiB)`.
std::string node_text(const NodeRef& node, SubtreeTotals& totals);

/// One element of a tensor, as scalars are printed; floats with as many digits as an f32 needs,
/// unless the dtype is wider.
void append_element(std::string& out, DType dtype, std::int64_t value);
void append_element(std::string& out, DType dtype, std::uint64_t value);
void append_element(std::string& out, DType dtype, double value);
void append_element(std::string& out, DType dtype, std::complex<double> value);
void write_element(JsonWriter& json, DType dtype, std::int64_t value);
void write_element(JsonWriter& json, DType dtype, std::uint64_t value);
void write_element(JsonWriter& json, DType dtype, double value);
void write_element(JsonWriter& json, DType dtype, std::complex<double> value);

/// Which tensors of a checkpoint were already written to a document with their axis names and block
/// name, if these are long. A tensor may have many nodes, each of which would repeat them.
class LongNames {
 public:
  /// Whether names are to be written: they are short, or it is the first time.
  bool first(const TensorRef& tensor);

 private:
  std::unordered_set<std::uint32_t> written_;  // by tensor; those with long names only
};

/// The members `path`, `kind`, `label`, and what there is to say about the kind: `value`, or
/// `children` (their number), or those of write_tensor_members().
void write_node_members(JsonWriter& json, std::string_view path, const NodeRef& node,
                        LongNames& names);
/// The members `dtype`, `block`, `shape`, `axis_names`, `elements`, `bytes`, `tensor`.
void write_tensor_members(JsonWriter& json, const TensorRef& tensor, LongNames& names);
/// The member `totals`.
void write_totals(JsonWriter& json, const Totals& totals);
/// The members `code`, `message`, `offset`, `path` of an error.
void write_error_members(JsonWriter& json, const Error& error);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_VALUES_H_
