// A zip archive as an opener sees it: finds the directory and gives the bytes of entries.
//
// An archive may be a whole file or lie in one, and several can be open at once. It does no I/O:
// the opener that owns it gathers the bytes that it wants.
#ifndef ESPALIER_FOREIGN_ZIP_ARCHIVE_H_
#define ESPALIER_FOREIGN_ZIP_ARCHIVE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/common/kept_bytes.h"
#include "espalier/foreign/zip/directory.h"
#include "espalier/format/file_set.h"
#include "espalier/notes.h"
#include "espalier/read/opening_machine.h"

namespace espalier {

/// Reads one archive in steps, as StepOpener does. Not thread-safe.
///
///   bool is_open = false;
///   ... in each step, until is_open:  is_open = archive.open();
///   ... in a later step:              ticket = archive.want(entry, 100);
///   ... in the step after that:       bytes = archive.bytes(ticket);
class ZipArchive {
 public:
  /// As StepOpener::want(): the bytes must be there when the next step begins.
  using Want = std::function<void(const Extent& extent, MutableByteSpan to)>;

  /// `where` is where the archive lies, and `front` its first bytes, which are not wanted again:
  /// any number of them, which must stay in their place. `tail` holds its last bytes, if they are
  /// at hand; fewer than kZipTailBytes do if the archive has no comment. `options`, `files` and
  /// what `want` refers to must outlive the archive.
  ZipArchive(const Extent& where, ByteSpan front, const OpenOptions& options, FileSet& files,
             Want want, std::vector<std::byte> tail = {});
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  /// Goes on to open the archive; true once the directory stands and every entry has a data_offset.
  /// Wants at most the last kZipTailBytes, then the rest of the directory, then local headers: all
  /// of them, or with OpenOptions::is_remote those whose length cannot be predicted. May return
  /// false and want nothing, if all is in the front already: call it again. Errors as of
  /// read_zip_end(), ZipDirectory::read() and ZipDirectory::check_local_header().
  [[nodiscard]] Result<bool> open();

  // The rest needs open() to have been true.

  const ZipDirectory& directory() const { return directory_; }
  const ZipEntry& entry(std::uint32_t number) const { return directory_.entries()[number]; }
  const OpenOptions& options() const { return options_; }

  /// Wants the first `length` bytes of entry `number`, or all of it if it has fewer. At the next
  /// step bytes() has them. In one step at most one call for each entry. A local header that was
  /// predicted comes with them, and bytes() checks it: what an opener reads of a file is the same
  /// on every host.
  std::size_t want(std::uint32_t number, std::uint64_t length = ~std::uint64_t{0});
  /// Wants bytes of entry `number` from its byte `offset` on, as ZipArchive::Want does: they must
  /// lie in it. It must be stored, and its local header confirmed: by the bytes() of an earlier
  /// want().
  void want_part(std::uint32_t number, std::uint64_t offset, MutableByteSpan to) {
    want_bytes(entry(number).data_offset + offset, to);
  }
  /// What want() returned `ticket` for, inflated if it was deflated. Valid as long as the archive
  /// or until drop(). Fewer bytes than were wanted if a deflate stream is so bad that more of it
  /// would be needed. Bytes of a whole entry match its CRC-32 if it has one. kForeignInvalid if
  /// they do not or cannot be inflated, and as of ZipDirectory::check_local_header();
  /// kLimitExceeded for a size that does not fit in memory.
  [[nodiscard]] Result<ByteSpan> bytes(std::size_t ticket);
  /// Frees the memory of a ticket.
  void drop(std::size_t ticket);

  using Place = KeptBytes::Place;
  /// Where the bytes of entry `number` can be read: in the archive if it is stored, or from the
  /// beginning of a made file that inflates it, the same one at each call. Call it after the last
  /// OpeningMachine::wants(), as made files have the highest numbers. kLimitExceeded if there are
  /// too many files.
  [[nodiscard]] Result<Place> place(std::uint32_t number);

  /// The files so far, for made ones of a format: as of place(), after the last of wants().
  FileSet& files() { return files_; }
  /// Where a copy of `bytes`, of an entry in another form, can be read: from a made file. Errors as
  /// of place().
  [[nodiscard]] Result<Place> keep(ByteSpan bytes) { return kept_.keep(files_, bytes); }

  /// The CRC-32 of the stored entries, for FileEntry::checksums. Those of deflated entries are
  /// checked when their files are made. Also those of local headers that are still predictions.
  std::vector<Checksum> checksums() const;
  /// Adds what is worth knowing about the whole archive: gaps.
  void add_notes(Notes& notes) const;

 private:
  enum class Stage { kTail, kEnd, kDirectory, kHeaders, kOpen };
  struct Piece {
    std::uint32_t entry = 0;
    bool fits = true;  // in memory
    bool is_ready = false;
    std::vector<std::byte> stored;
    std::vector<std::byte> inflated;
    std::size_t header_bytes = 0;  // of `stored`, if the entry was predicted
    std::uint64_t length = 0;
  };

  void want_bytes(std::uint64_t offset, MutableByteSpan to);
  [[nodiscard]] Result<void> read_end();
  void want_headers();
  [[nodiscard]] Result<void> check_headers();

  Extent where_;
  ByteSpan front_;
  const OpenOptions& options_;
  FileSet& files_;
  Want want_;

  Stage stage_ = Stage::kTail;
  std::vector<std::byte> tail_;
  ZipEnd end_;
  std::vector<std::byte> directory_bytes_;
  ZipDirectory directory_;
  // The local headers of one step.
  std::uint32_t next_entry_ = 0;
  std::vector<std::uint32_t> header_entries_;
  std::vector<std::byte> headers_;

  std::vector<Piece> pieces_;
  std::vector<std::uint16_t> made_files_;  // by entry; 0: none yet
  KeptBytes kept_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ZIP_ARCHIVE_H_
