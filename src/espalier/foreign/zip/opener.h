// Opens a file that is a zip archive.
#ifndef ESPALIER_FOREIGN_ZIP_OPENER_H_
#define ESPALIER_FOREIGN_ZIP_OPENER_H_

#include <cstdint>
#include <memory>

#include "espalier/bytes.h"
#include "espalier/foreign/zip/archive.h"
#include "espalier/foreign/zip/content_reader.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/step_opener.h"

namespace espalier {

/// Whether `front` begins as a zip archive does: with a local header, or the end record of an empty
/// archive.
bool looks_like_zip(ByteSpan front, std::uint64_t file_size);

/// The machine that opens a zip archive: finds its directory, and leaves the rest to the reader
/// that `choose` gives. Two requests for a typical file on another machine, three for one with more
/// than some hundred entries, and those of the reader.
class ZipOpener final : public StepOpener {
 public:
  ZipOpener(const OpenOptions& options, ChooseContentReader choose);

 private:
  [[nodiscard]] Result<void> step() override;
  [[nodiscard]] Result<bool> go_on();
  [[nodiscard]] Result<Checkpoint> build() override;

  ChooseContentReader choose_;
  ZipArchive archive_;
  std::unique_ptr<ContentReader> reader_;  // set once the directory stands
  bool has_wanted_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ZIP_OPENER_H_
