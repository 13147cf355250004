// The table of everything that a server serves.
#ifndef ESPALIER_SERVE_SITE_H_
#define ESPALIER_SERVE_SITE_H_

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "espalier/error.h"
#include "serve/resource.h"

namespace espalier::serve {

/// Resources by name: "index.html", "assets/app.js". Requests are looked up here and never become
/// file system paths, so no request can leave the folder. Const use is thread-safe if that of the
/// makers is.
class Site {
 public:
  /// Makes the resource for one answer, which keeps it: what changes meanwhile is for the next one.
  using Maker = std::function<Result<std::shared_ptr<const Resource>>()>;

  /// Adds a resource, unless the name is taken.
  void add(std::string name, std::unique_ptr<const Resource> resource);

  /// The same for one that is made for each request.
  void add_live(std::string name, Maker make);

  /// Reads all regular files below `folder` into memory, so a rebuild does not mix two versions of
  /// the page. "app.js.gz" beside "app.js" has no name of its own: it is sent to clients that
  /// request "app.js" and accept gzip. Symbolic links are skipped, because they may lead anywhere.
  /// kFileNotFound, kIoError; kLimitExceeded beyond 64 MiB.
  [[nodiscard]] Result<void> add_folder(const std::filesystem::path& folder);

  /// Whether there is a resource of exactly that name.
  bool has(std::string_view name) const;

  /// The resource of exactly that name, or null. Errors of its maker.
  [[nodiscard]] Result<std::shared_ptr<const Resource>> find(std::string_view name) const;

 private:
  std::map<std::string, Maker, std::less<>> makers_;
};

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_SITE_H_
