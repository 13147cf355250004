#include "http/http_checkpoint.h"

#include <algorithm>
#include <string>
#include <utility>

#include "http/http_source.h"

namespace espalier::http {

Result<CheckpointFile> open_checkpoint(const Url& url, std::shared_ptr<const Source> source,
                                       const MakeTransfer& make_transfer,
                                       const HttpOptions& http_options, OpenFileOptions options) {
  constexpr unsigned kThreads = 8;
  if (options.threads.count == 0) options.threads.count = kThreads;
  options.name = file_name(url);
  // One of many, so its header is short.
  HttpOptions beside = http_options;
  beside.head_bytes = std::min(beside.head_bytes, std::uint64_t{256} << 10);
  options.sibling = [url, make_transfer,
                     beside](const std::string& name) -> Result<std::shared_ptr<const Source>> {
    const auto sibling = sibling_url(url, name);
    return sibling ? open_url(*sibling, make_transfer, beside) : propagate(sibling);
  };
  options.sibling_threads = kThreads;
  return CheckpointFile::open(std::move(source), options);
}

}  // namespace espalier::http
