#pragma once
/// The settings of local delivery, as values.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/map/map.h"
#include "lib/send/mailbox/accounts.h"
#include "lib/send/mailbox/store.h"
#include "local/expand.h"

namespace pen::local {

struct Rules {
  std::string myhostname, myorigin;
  std::string delimiters;  // recipient_delimiter
  ExpandRules expansion;   // all of it but the domain
  // Accounts of the mail system: like root, nothing is delivered with their rights.
  std::vector<uid_t> kept_uids = {};
  // Finds an account by its name; any thread.
  std::function<Result<std::optional<mailbox::Account>>(const std::string& name)> account =
      [](const std::string& name) { return mailbox::find_account(name); };
  // True: an address of another domain is delivered by this service too; any thread.
  std::function<Result<bool>(const std::string& address)> ours;

  // the user's mailbox
  std::string home_mailbox;
  std::string mail_spool_directory;
  std::uint64_t mailbox_size_limit = 0;
  mailbox::LockRules lock;
  bool strict_ownership = true;            // strict_mailbox_ownership
  bool require_home = false;               // require_home_directory
  std::vector<std::string> forward_paths;  // forward_path, unexpanded
  std::string forward_filter;              // forward_expansion_filter
  map::MapList mailbox_commands;           // mailbox_command_maps
  std::string mailbox_command;

  // commands
  std::string default_privs = "nobody";
  std::string command_filter;  // command_expansion_filter
  std::string shell;           // local_command_shell
  std::string directory;       // command_execution_directory, unexpanded; where that is empty:
  std::string start_directory = "/";
  std::string directory_filter;
  std::vector<std::string> exported;  // export_environment, as "NAME=value"
  seconds time_limit{1000};           // command_time_limit

  // deliveries, and look-ups of aliases
  std::size_t share = 8;     // concurrent deliveries of one user or alias
  seconds patience{30};      // how long the next one waits for a place
  seconds include_time{30};  // for reading all :include: files of one expansion

  // other ways
  map::MapList mailbox_transports,
      fallback_transports;  // mailbox_transport_maps, fallback_transport_maps
  std::string mailbox_transport, fallback_transport;
  std::string luser_relay;

  bool mark_files = true, mark_forwards = true, mark_commands = true;  // prepend_delivered_header
};

}  // namespace pen::local
