// A new file in pieces, for the part of abi.h that writes.
#ifndef ESPALIER_WASM_WRITTEN_FILE_H_
#define ESPALIER_WASM_WRITTEN_FILE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/unrepresentable.h"
#include "espalier/value.h"
#include "espalier/write/carry.h"
#include "espalier/write/references.h"

namespace espalier::abi {

/// The pieces are made in order. The last one begins the file.
class WrittenFile {
 public:
  /// Bytes that a piece is made of: of a tensor's data, or of the checkpoint where it is stored.
  struct Need {
    const TensorData* data = nullptr;
    bool is_stored = false;
    espalier::Extent extent;
  };

  struct Made {
    /// Valid until the next piece is made.
    ByteSpan bytes;
    std::uint64_t offset = 0;
  };

  virtual ~WrittenFile() = default;
  /// Of the file; if it is compressed, an upper bound.
  virtual std::uint64_t length() const = 0;
  virtual std::uint32_t pieces() const = 0;
  /// Bytes of piece `i` of pieces(), as long as nothing is compressed.
  virtual std::uint64_t piece_bytes(std::uint32_t i) const = 0;
  virtual std::vector<Need> needs(std::uint32_t i) const = 0;
  virtual Result<Made> make(std::uint32_t i) = 0;
};

Result<std::unique_ptr<WrittenFile>> written_espalier(const Value& state, const Value& metadata,
                                                      int compression_level, Carry carry,
                                                      const References& references);
/// Adds what the file leaves out to `dropped`.
Result<std::unique_ptr<WrittenFile>> written_safetensors(const Value& state, const Value& metadata,
                                                         Unrepresentable unrepresentable,
                                                         Losses& dropped);

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_WRITTEN_FILE_H_
