// Hashes of what each panel needs of a chunk, so that a panel need not read all of it.
#ifndef ESPALIER_FILES_MAP_PANEL_SUMS_H_
#define ESPALIER_FILES_MAP_PANEL_SUMS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/map/target_recipe.h"

namespace espalier {

/// A transposed tensor needs a stripe of every chunk for each of its panels. The first panel reads
/// whole chunks, checks their hashes, and takes a sum of each stripe here; the other panels read
/// their stripes alone, and compare. So the sources are read twice however many panels there are,
/// and every byte that is used has been checked. Thread-safe but for the constructor.
class PanelSums {
 public:
  using Window = TargetRecipe::Window;
  /// A leaf whose bytes can be read in parts.
  struct Source {
    std::uint32_t leaf;
    std::uint64_t bytes;
  };

  /// Of panels of `panel_bytes` of a recipe, which must outlive this.
  PanelSums(const TargetRecipe& recipe, std::uint64_t panel_bytes, std::span<const Source> sources);

  /// Bytes of memory for so many chunks and panels, and of these sums.
  static std::uint64_t memory_for(std::uint64_t chunks, std::uint64_t panels);
  std::uint64_t memory() const { return sums_.size() * sizeof(sums_[0]); }

  /// What a panel needs of a chunk of a leaf: the runs, and their sum. Nothing if that is not
  /// known yet, or if the runs are so short that the whole chunk is read as fast.
  struct Part {
    std::vector<Window> runs;  // in the source
    std::uint64_t sum = 0;
  };
  std::optional<Part> part(std::uint32_t leaf, std::uint64_t chunk, std::uint64_t panel) const;

  /// Takes the sums of a chunk; `bytes` are its own, and checked. Does nothing the next time.
  void take(std::uint32_t leaf, std::uint64_t chunk, ByteSpan bytes);

  /// The sum of runs of a chunk whose first byte is byte `begin` of the source.
  static std::uint64_t sum_of(std::span<const Window> runs, std::uint64_t begin, ByteSpan bytes);

  /// Whether the stripes of the first chunk are long enough.
  bool pays() const;

 private:
  enum State : std::uint8_t { kUnknown, kBusy, kKnown, kShort };

  struct Chunks {
    std::uint64_t first_row = 0;
    std::uint64_t bytes = 0;  // of the source
    std::vector<const TargetRecipe::Part*> parts;
  };

  Window panel(std::uint64_t number) const;
  // False if there are more than `most`, which is reduced by what was found.
  bool find_runs(const Chunks& source, const Window& chunk, std::uint64_t panel,
                 std::vector<Window>& runs, std::size_t& most) const;

  const TargetRecipe& recipe_;
  const std::uint64_t panel_bytes_;
  const std::uint64_t panels_;
  std::map<std::uint32_t, Chunks> sources_;
  std::vector<std::uint64_t> sums_;  // a row for each chunk, a column for each panel
  std::unique_ptr<std::atomic<State>[]> states_;
};

}  // namespace espalier

#endif  // ESPALIER_FILES_MAP_PANEL_SUMS_H_
