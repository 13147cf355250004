// Opens a GGUF file, as llama.cpp and its kin write, as a checkpoint.
//
// The state is a flat dict: its keys are the tensors' names, in the order of the file. Quantised
// tensors are of dtype opaque, with ggml's blocks. The key-value pairs are the metadata. A model in
// several files ("name-00001-of-00003.gguf") is one checkpoint if its first file is opened.
// docs/formats.md says what is refused.
#ifndef ESPALIER_FOREIGN_GGUF_OPENER_H_
#define ESPALIER_FOREIGN_GGUF_OPENER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/foreign/gguf/header.h"
#include "espalier/notes.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/step_opener.h"

namespace espalier {

/// Whether a file that begins with `front` is a GGUF file.
bool looks_like_gguf(ByteSpan front, std::uint64_t file_size);

/// The machine that opens a GGUF file. It reads growing windows of the header, as its length stands
/// nowhere. Besides the errors of every opener, finish() returns those of GgufHeader and
/// gguf_tables().
class GgufOpener final : public StepOpener {
 public:
  explicit GgufOpener(const OpenOptions& options);

 private:
  // A file, and as much of its header as has come.
  struct Part {
    Part(std::uint32_t number, std::uint64_t file_size, const Limits& limits)
        : file(number), header(file_size, limits) {}

    std::uint32_t file;
    std::vector<std::byte> bytes;
    GgufHeader header;
    bool is_complete = false;
    // A further file that cannot be used.
    bool is_lost = false;
  };

  [[nodiscard]] Result<void> step() override;
  [[nodiscard]] Result<Checkpoint> build() override;
  [[nodiscard]] Result<void> read_on(Part& part);
  [[nodiscard]] Result<void> want_further_files();
  void open_further_files();
  void lose(Part& part, Error error);
  [[nodiscard]] Result<void> check_further(const Part& part) const;

  std::vector<Part> parts_;
  bool are_further_open_ = false;
  Notes notes_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_GGUF_OPENER_H_
