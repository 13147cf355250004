// A tensor as it stands in a checkpoint, for saves that take it over without reading it.
#ifndef ESPALIER_FORMAT_STORED_TENSOR_H_
#define ESPALIER_FORMAT_STORED_TENSOR_H_

#include <cstdint>
#include <memory>

#include "espalier/bytes.h"
#include "espalier/detail/catalog.h"

namespace espalier {

/// Tensor number `number` of a catalog that has hashes, and the files with its chunks.
struct StoredTensor {
  std::shared_ptr<const Catalog> catalog;
  std::uint32_t number = 0;
  std::shared_ptr<const ByteSource> bytes;
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_STORED_TENSOR_H_
