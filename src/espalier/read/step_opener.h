// The common part of openers that find out step by step which bytes they need.
#ifndef ESPALIER_READ_STEP_OPENER_H_
#define ESPALIER_READ_STEP_OPENER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/format/file_set.h"
#include "espalier/read/gather.h"
#include "espalier/read/opening_machine.h"

namespace espalier {

/// Opens files in steps. A step looks at what has come so far, and wants further bytes and files;
/// the next one runs when all of them are there. The first step has the front of the file. After a
/// step that wants nothing, the machine is done. Bytes are copied once, to memory where no other
/// program can change them.
class StepOpener : public OpeningMachine {
 public:
  const WantedFiles* wanted_files() const final;
  [[nodiscard]] Result<void> answer(std::uint32_t number, const Result<std::uint64_t>& size) final;
  std::span<const Extent> needs() const final;
  [[nodiscard]] Result<void> feed(const Extent& extent, ByteSpan bytes) final;
  [[nodiscard]] Result<Checkpoint> finish() final;

 protected:
  explicit StepOpener(const OpenOptions& options);

  const OpenOptions& options() const { return options_; }
  /// The first kFirstReadBytes of the file, or all of it.
  ByteSpan front() const { return front_; }
  /// The files so far: the opened one, and those that were wanted, with their lengths or problems.
  FileSet& files() { return files_; }

  /// Wants the bytes at `extent`, which must lie within their file, copied to `to`, which has as
  /// many bytes and must stay in its place until the next step. For step(). Extents of one step may
  /// stand in any order but do not overlap.
  void want(const Extent& extent, MutableByteSpan to);
  /// Wants further files, with the next free numbers. For step(). kLimitExceeded beyond
  /// Limits::files.
  [[nodiscard]] Result<void> want_files(std::vector<std::string> names,
                                        FilePlace place = FilePlace::kBeside);

 private:
  /// Runs when all that was wanted is there.
  [[nodiscard]] virtual Result<void> step() = 0;
  /// Makes the checkpoint after the last step.
  [[nodiscard]] virtual Result<Checkpoint> build() = 0;

  struct Want {
    Extent extent;
    MutableByteSpan to;
  };

  void begin_gathering();
  [[nodiscard]] Result<void> go_on();

  OpenOptions options_;
  FileSet files_;
  std::vector<std::byte> front_;
  std::vector<Want> next_;    // of the step that runs
  std::vector<Want> wanted_;  // sorted, in pieces
  WantedFiles wanted_files_;
  Gather gather_;
  bool is_done_ = false;
  std::optional<Error> error_;
};

}  // namespace espalier

#endif  // ESPALIER_READ_STEP_OPENER_H_
