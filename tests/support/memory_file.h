// Espalier files in memory: what tests use in place of a disk.
#ifndef ESPALIER_TESTS_SUPPORT_MEMORY_FILE_H_
#define ESPALIER_TESTS_SUPPORT_MEMORY_FILE_H_

#include <initializer_list>
#include <span>
#include <vector>

#include "espalier/base/little_endian.h"
#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/limits.h"
#include "espalier/value.h"
#include "espalier/write/writer.h"

namespace espalier::testing {

/// The bytes of the file that holds `state` and `metadata`.
Result<std::vector<std::byte>> write_file(const Value& state, const Value& metadata = Value::dict(),
                                          const WriteOptions& options = {});

/// Opens a file whose bytes are `file`.
Result<Checkpoint> open_file(ByteSpan file, const Limits& limits = {});

/// Reads a tensor, or a slice of one, from a checkpoint whose file is `file`.
Result<std::vector<std::byte>> read_tensor(ByteSpan file, const TensorRef& tensor,
                                           std::span<const Slice> slices = {});

/// The tree below `node`, read from `file`.
Result<Value> load_tree(ByteSpan file, const NodeRef& node);

/// `values` in little-endian bytes, for the contents of tensors.
template <class T>
std::vector<std::byte> bytes_of(std::initializer_list<T> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::byte* at = bytes.data();
  for (const T& value : values) {
    store_le(at, value);
    at += sizeof(T);
  }
  return bytes;
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_MEMORY_FILE_H_
