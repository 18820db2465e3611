#pragma once
/// How clients are tested at a port of postscreen: the postscreen_ settings, read once (docs/triage.md).
///
/// Use:     auto screening = Screening::open(config, *policy);   // at start and on reload
///          switch (screening->access(address)) …                 // may ask tables
/// Not here: plain values, which are read from policy.settings.postscreen_….
/// Errors:  a malformed list or table.
/// Thread:  immutable; any.
#include <memory>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/meaning/smtpd/policy.h"
#include "lib/net/dnsbl/list.h"
#include "lib/receive/triage/tests.h"

namespace pen::smtpd {

/// What postscreen_access_list says of a client.
enum class ScreenAccess : std::uint8_t { permit, reject, dunno };

struct Screening {
  triage::Rules rules;
  triage::Action denylist_action = triage::Action::ignore;

  struct Site {
    dnsbl::Site site;
    std::size_t domain = 0;  // its place in domains
  };
  std::vector<Site> sites;           // postscreen_dnsbl_sites
  std::vector<std::string> domains;  // of the sites, each once: what is asked
  map::MapList dnsbl_reply;

  map::MatchList allowlist_interfaces, forbidden_commands;
  map::MapList command_filter, reject_footer_maps, discarded_by_client;
  DiscardedKeywords discarded;
  std::string expansion_filter;
  bool upstream_proxy = false;
  /// Of the log: respectful_logging.
  struct Words {
    const char *permitted = "ALLOWLISTED", *denied = "DENYLISTED", *vetoed = "ALLOWLIST VETO";
  } words;
  /// Of the cache; empty: it is kept in memory only.
  std::string cache_directory;
  std::vector<std::string> warnings;  // for the log, once at start

  struct Access {
    ScreenAccess outcome = ScreenAccess::dunno;
    std::vector<std::string> warnings;  // tables that cannot be read, or say nothing that can be understood
  };
  Access access(const std::string& address, const map::MatchList& mynetworks) const;

  static Result<std::shared_ptr<const Screening>> open(const config::Config& config, const Policy& policy);

 private:
  struct Item {
    enum class Kind : std::uint8_t { permit, reject, dunno, mynetworks, table } kind = Kind::dunno;
    map::MapList table;
  };
  std::vector<Item> access_;
  Result<void> read_access(const std::vector<std::string>& items, const map::OpenOptions& options);
  void read_sites(const std::vector<std::string>& items);
  void read_rules(const config::Settings& settings);
};

/// "btree:/var/lib/x" is a directory /var/lib/x; of any type, for the file is an LMDB database anyway. Empty: none.
/// Errors: not an absolute path.
Result<std::string> screen_cache_directory(std::string_view cache_map);

}  // namespace pen::smtpd
