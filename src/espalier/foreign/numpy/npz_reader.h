// Reads a .npz file, NumPy's format for several arrays: a zip archive of .npy files.
#ifndef ESPALIER_FOREIGN_NUMPY_NPZ_READER_H_
#define ESPALIER_FOREIGN_NUMPY_NPZ_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "espalier/foreign/numpy/read_npy_header.h"
#include "espalier/foreign/zip/content_reader.h"
#include "espalier/format/foreign_parts.h"

namespace espalier {

/// Whether an archive is a .npz file: all files in it end in ".npy", or there are none.
bool is_npz(const ZipDirectory& directory);

/// The state is a flat dict: the keys are the names without ".npy", as NumPy gives them, in the
/// order of the directory, also if they have slashes. Arrays of savez_compressed() are made files.
/// An array that cannot be shown is a placeholder, or null if even its header makes no sense, with
/// a note that says why.
class NpzReader final : public ContentReader {
 public:
  [[nodiscard]] Result<bool> step(ZipArchive& archive) override;
  [[nodiscard]] Result<ForeignParts> build(ZipArchive& archive) override;

 private:
  enum class Stage { kBegin, kFronts, kHeaders };
  struct Member {
    std::uint32_t entry = 0;
    std::size_t ticket = 0;
    NpyArray array = {};
    // Why the array cannot be listed; empty if it can.
    std::string problem = {};
    // Bytes of its header, while they are not all there.
    std::uint64_t wanted = 0;
  };

  [[nodiscard]] static Result<void> read_header(ZipArchive& archive, Member& member);

  Stage stage_ = Stage::kBegin;
  std::vector<Member> members_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_NUMPY_NPZ_READER_H_
