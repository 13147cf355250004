// Tensors of strings and variants, which have no elements of one size.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_TEXTS_H_
#define ESPALIER_FOREIGN_TENSORFLOW_TEXTS_H_

#include <cstdint>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/tensorflow/bundle.h"

namespace espalier {

/// The elements of a tensor of the storage kText or kVariant, in C order, as views of `bytes`, all
/// that is stored of it. kForeignInvalid, with a clause, if lengths do not fit or a CRC-32C does
/// not match.
[[nodiscard]] Result<std::vector<ByteSpan>> read_texts(const BundleEntry& entry, ByteSpan bytes);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_TEXTS_H_
