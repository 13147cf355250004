// Parts of images that are made as a whole, because their sources are read at large.
#ifndef ESPALIER_FILES_MAP_PANELS_H_
#define ESPALIER_FILES_MAP_PANELS_H_

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/map/target_recipe.h"
#include "files/map/panel_sums.h"

namespace espalier {

/// An image, and the size of its panels.
struct PanelRecipe : TargetRecipe {
  std::uint64_t panel_bytes = 0;
  std::unique_ptr<PanelSums> sums;  // null if each panel reads all that its sources have

  std::uint64_t panels() const { return (bytes() + panel_bytes - 1) / panel_bytes; }
  Window panel(std::uint64_t number) const {
    return {number * panel_bytes, std::min((number + 1) * panel_bytes, bytes())};
  }
};

/// The panels that are there: two, so that one is read from while the next one is made. Their
/// memory is allocated once; given back and taken anew, it would add up to more than two panels.
/// Thread-safe.
class Panels {
 public:
  static constexpr std::size_t kCount = 2;
  using Window = TargetRecipe::Window;
  /// Fills `out` with the bytes of a panel.
  using Make = std::function<Result<void>(const PanelRecipe& recipe, std::uint64_t panel,
                                          MutableByteSpan out)>;

  /// No recipe's panels are larger than `panel_bytes`.
  Panels(std::uint64_t panel_bytes, Make make)
      : panel_bytes_(panel_bytes), make_(std::move(make)) {}

  /// Copies the bytes of an image from `offset` on, and makes the panels that have them. An error
  /// or exception of `make` comes to all that wait for the panel; whoever asks next tries again.
  [[nodiscard]] Result<void> read(const std::shared_ptr<const PanelRecipe>& recipe,
                                  std::uint64_t offset, MutableByteSpan out);

 private:
  struct Panel {
    std::shared_ptr<const PanelRecipe> recipe;  // null if there is nothing in it
    std::uint64_t number = 0;
    std::uint64_t made = 0;  // when: the oldest one makes room
    std::unique_ptr<std::byte[]> bytes;
    unsigned readers = 0;
    bool is_ready = false;
    std::optional<Error> error;
    std::exception_ptr thrown;
  };

  Panel& borrow(const std::shared_ptr<const PanelRecipe>& recipe, std::uint64_t number);
  void make(Panel& panel) const noexcept;
  void release(Panel& panel);

  const std::uint64_t panel_bytes_;
  const Make make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t made_ = 0;
  Panel panels_[kCount];
};

}  // namespace espalier

#endif  // ESPALIER_FILES_MAP_PANELS_H_
