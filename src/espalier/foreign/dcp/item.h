// Opens one item of a distributed checkpoint: a file of torch.save() that lies in another file.
#ifndef ESPALIER_FOREIGN_DCP_ITEM_H_
#define ESPALIER_FOREIGN_DCP_ITEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/foreign/torch/pickle_checkpoint.h"
#include "espalier/foreign/zip/archive.h"
#include "espalier/foreign/zip/content_reader.h"
#include "espalier/format/file_set.h"
#include "espalier/read/opening_machine.h"

namespace espalier {

/// A tensor that lies in the file of its item, as its pickle describes it.
struct DcpTensor {
  DType dtype = DType::kF32;
  std::string block = {};  // of an opaque type: its name, and bytes of an element
  std::uint32_t block_bytes = 0;
  std::vector<std::uint64_t> shape = {};
  std::vector<std::uint64_t> strides = {};  // empty for packed elements
  std::uint8_t flags = 0;                   // of a StorageRecord, but kStorageStrided
  std::uint64_t offset = 0;                 // of the first element, in the file
};

/// An item: opened, or why it was not.
struct OpenedItem {
  /// If it is a tensor, which needs no more memory than this.
  std::optional<DcpTensor> tensor = std::nullopt;
  /// Anything else.
  std::optional<Checkpoint> checkpoint = std::nullopt;
  std::optional<Error> problem = std::nullopt;
  std::vector<Note> notes = {};
  std::vector<Checksum> checksums = {};
  TorchCalls calls = {};
};

/// Reads one item in steps, as StepOpener does. Not thread-safe. It wants both ends of the item at
/// once, which hold all but the bytes of a usual item, and more only if they do not.
class DcpItemOpener {
 public:
  /// `options` and what `want` refers to must outlive the opener; so must its own place.
  DcpItemOpener(const Extent& where, const OpenOptions& options, ZipArchive::Want want);
  DcpItemOpener(const DcpItemOpener&) = delete;
  DcpItemOpener& operator=(const DcpItemOpener&) = delete;

  /// Wants the first bytes. Then step() goes on, whenever what was wanted is there: true if
  /// nothing more is needed.
  void start();
  [[nodiscard]] Result<bool> step();
  /// What was opened, once.
  [[nodiscard]] Result<OpenedItem> build();

 private:
  [[nodiscard]] Result<bool> go_on();

  Extent where_;
  const OpenOptions& options_;
  ZipArchive::Want want_;
  bool has_wanted_ = false;
  std::vector<std::byte> front_;
  std::vector<std::byte> tail_;
  FileSet files_;  // of the item alone: its file, and those that are made
  std::optional<ZipArchive> archive_;
  TorchCalls calls_;
  std::unique_ptr<ContentReader> reader_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_DCP_ITEM_H_
