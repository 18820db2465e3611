#pragma once
/// pentrace: the dialogue of SMTP sessions as it happens. Manual: man/pentrace.1.
///
/// Use:     return service::run_tool<TraceTool>(argc, argv);
/// Errors:  EX_UNAVAILABLE: no program could be asked, or one refused; EX_CONFIG.
#include <expected>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/async/loop.h"
#include "lib/base/async/sync.h"
#include "lib/config/config.h"
#include "lib/suite/ipc/trace.h"
#include "lib/suite/service/command_line.h"

namespace pen::tools {

class TraceTool {
 public:
  enum class Way { in, out };
  struct Options {
    std::string directory;
    bool json = false;
    Way way = Way::in;
    int count = 0;  // sessions; 0: no end
    ipc::trace::Filter filter;
    std::vector<std::string> services;  // only these; empty: all
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit TraceTool(Options options) : options_(std::move(options)) {}
  int run();

  /// A service with sessions that can be followed, and where it is asked.
  struct Place {
    std::string service, path;
    unsigned process = 1;
    bool operator==(const Place&) const = default;
  };
  using Exists = std::function<bool(const std::string& path)>;
  /// The first process of each service, and those whose sockets are there: how many master started is its own count.
  /// One may be left from a time with more of them.
  static std::vector<Place> places(const config::Config& config, Way way, const Exists& exists);
  /// One line for people, or an object of JSON.
  static std::string shown(const ipc::trace::Line& line, const std::string& service, bool json);
  static std::string shown(const ipc::trace::Dropped& gap, const std::string& service, bool json);

 private:
  struct Follower {
    Place place;
    bool reached = false;  // it has served us once
    std::string why;       // it does not now
  };
  static async::Task<void> follow(TraceTool* tool, async::Loop* loop, Follower* follower);
  static async::Task<bool> converse(TraceTool* tool, async::Loop* loop, Follower* follower);
  void see(const ipc::trace::Line& line, const std::string& service);
  void note(const Follower& follower, const std::string& text) const;

  Options options_;
  async::Cancel over_;                         // as many sessions as wanted have ended
  std::set<std::string, std::less<>> chosen_;  // of options_.count
  std::set<std::string, std::less<>> ended_;
};

}  // namespace pen::tools
