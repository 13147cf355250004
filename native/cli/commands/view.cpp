// espalier view: shows checkpoints in the viewer's page, in the user's browser.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "cli/opening/command.h"
#include "cli/opening/key_maps.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/text.h"
#include "cli/view/browser.h"
#include "cli/view/served_files.h"
#include "cli/view/served_folder.h"
#include "cli/view/stop_signals.h"
#include "cli/view/viewer_page.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "serve/listener.h"
#include "serve/server.h"
#include "serve/site.h"
#include "serve/token.h"
#include "serve/url.h"

namespace espalier::cli {
namespace {

struct ViewOptions {
  CommonOptions common;
  std::vector<std::string> files;
  std::string page;
  std::uint16_t port = 0;
  unsigned idle_timeout = 0;  // seconds; 0 for none
  bool no_browser = false;
  bool force = false;
  MapOptions map;
};

// The most of a map and its options that goes into a URL.
constexpr std::size_t kMostMapBytes = 64 * 1024;

void append_encoded(std::string& url, std::string_view text) {
  for (const char c : text) {
    url += c == '/' ? std::string(1, c) : serve::percent_encoded({&c, 1});
  }
}

// What the page must know of a key map: "&map=...&map-options=...".
tl::expected<std::string, Failure> map_fragment(const ViewOptions& options) {
  if (options.map.names.empty()) return std::string();
  if (options.map.names.size() > 1 || options.files.size() > 1) {
    return refuse("--map", "the page shows one file through one map");
  }
  auto map = find_map(options.map.names.front());
  if (!map) return tl::unexpected(map.error());
  auto json = page_options(options.map);
  if (!json) return tl::unexpected(json.error());
  const std::string& name = options.map.names.front();
  const bool is_known = !is_map_file(name);
  std::string fragment = "&map=";
  append_encoded(fragment, is_known ? name : map->canonical());
  fragment += "&map-options=";
  append_encoded(fragment, *json);
  if (fragment.size() > kMostMapBytes) {
    return refuse("--map",
                  "the map and its configuration are too large for the page; save what the "
                  "map makes with `espalier map`, and view that");
  }
  return fragment;
}

// The URL fragment that tells the page what to open: one file, or the list of several. Browsers
// send fragments to no server. The page decodes the value once and gets a URL.
std::string fragment_of(const std::vector<ServedFile>& files) {
  if (files.size() != 1) return "#files";
  std::string value;
  append_encoded(value, files.front().url);
  return "#url=" + value;
}

// Puts into `site` what the command line names, and returns the URL fragment that tells the page
// what to open: one file, the list of several, or the run of a folder.
tl::expected<std::string, Failure> add_content(serve::Site& site, const ViewOptions& options) {
  for (const std::string& name : options.files) {
    if (!is_folder_of_checkpoints(name)) continue;
    if (options.files.size() > 1) return refuse(name, "view one folder, or files");
    if (!options.map.names.empty()) return refuse("--map", "the page shows one file through a map");
    add_live_folder(site, name);
    std::string fragment = "#run=files.json&title=";
    std::error_code error;  // of a folder that is there
    append_encoded(fragment, std::filesystem::canonical(name, error).filename().string());
    return fragment;
  }
  const auto files = add_files(site, options.files, options.force);
  if (!files) return tl::unexpected<Failure>(files.error());
  return fragment_of(*files);
}

void announce(Output& out, const ViewOptions& options, const serve::Service& service,
              const std::string& url) {
  if (options.common.json) {
    JsonWriter json(out);
    json.begin_object();
    json.member("url", url);
    json.member("port", std::uint32_t{service.port});
    json.end_object();
    out.put('\n');
    return;
  }
  const std::string what = options.files.size() == 1 ? escaped(options.files.front())
                                                     : counted(options.files.size(), "file");
  out.print("Serving {} at {}\nPress Ctrl-C to stop.\n", what, url);
}

Outcome run_view(const ViewOptions& options, Output& out) {
  serve::Site site;
  const auto map = map_fragment(options);
  if (!map) return tl::unexpected<Failure>(map.error());
  const auto fragment = add_content(site, options);
  if (!fragment) return tl::unexpected<Failure>(fragment.error());
  const auto page = find_viewer_page(options.page);
  if (!page) return tl::unexpected<Failure>(page.error());
  if (auto ok = site.add_folder(*page); !ok) return about(page->string(), ok);

  // Before the URL is printed: a reader of the URL may send a signal at once.
  StopSignals stop;
  if (auto ok = stop.begin(); !ok) return about({}, ok);
  auto token = serve::make_token();
  if (!token) return about({}, token);
  auto listener = serve::Listener::open(options.port);
  if (!listener) return about({}, listener);

  const serve::Service service{site, std::move(*token), listener->port};
  const std::string url = "http://127.0.0.1:" + std::to_string(service.port) + "/" + service.token +
                          "/" + *fragment + *map;
  announce(out, options, service, url);
  // The server is useless without its URL. main() prints the error.
  if (!out.finish()) return ExitCode::kOk;
  if (!options.no_browser) {
    if (const auto ok = open_browser(url); !ok) {
      print_error("no browser was opened; open the URL yourself: " + describe(ok.error()));
    }
  }
  serve::ServeOptions serving{.stop = stop.fd(), .idle_timeout = {}};
  if (options.idle_timeout > 0) serving.idle_timeout = std::chrono::seconds(options.idle_timeout);
  if (auto ok = serve::serve(std::move(*listener), service, serving); !ok) return about({}, ok);
  return ExitCode::kOk;
}

}  // namespace

void add_view(CLI::App& app, Action& action) {
  auto options = std::make_shared<ViewOptions>();
  CLI::App* command =
      app.add_subcommand("view", "Show checkpoints in a browser, served to this machine only");
  command->add_option("FILE", options->files, "Checkpoints, or the folder of a run")
      ->required()
      ->expected(-1);
  command->add_option("--port", options->port, "The port to listen on; a free one by default")
      ->type_name("N")
      ->check(CLI::Range(1, 65535).description(""));
  command->add_option("--page", options->page, "The folder of the viewer's page")->type_name("DIR");
  command->add_flag("--no-browser", options->no_browser, "Do not open a browser");
  command->add_flag("-f,--force", options->force, "Serve files that are not checkpoints, too");
  command
      ->add_option("--idle-timeout", options->idle_timeout,
                   "Stop after this time without a request")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 1'000'000).description(""));
  add_map_options(*command, options->map, "Show what a key map makes of the file");
  add_json_option(*command, options->common);
  set_examples(*command,
               {"espalier view run.espalier", "espalier view step-1000.espalier step-2000.espalier",
                "espalier view runs/7"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run_view(*options, out); }; });
}

}  // namespace espalier::cli
