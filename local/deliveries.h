#pragma once
/// The blocking part of local delivery: accounts, and deliveries in processes of their own (lib/send/mailbox/child.h).
///
/// Rights:  never root's. A user's mail is delivered with the user's rights; mail for root or for nobody in
///          particular with those of default_privs; for commands and files of aliases see expand.h.
/// Thread:  any number of handler threads at once; what they share must not change meanwhile.
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "lib/send/delivery/incoming.h"
#include "local/rules.h"

namespace pen::local {

/// What all deliveries share.
struct Shared {
  Rules rules;
  map::MapList aliases;
};

/// What one try at a recipient has done so far. Forward files that lead to each other are followed once each, and a
/// mailbox gets the message once. The deliveries of a tour are made one after the other.
struct Tour {
  std::set<std::string> files;  // forward files followed so far
  // Accounts with mailboxes; names with extension if a command or transport takes the mail, which may depend on it.
  std::set<std::string> boxes;
  std::size_t destinations = 0;  // ExpandRules::limit at most
};

/// One delivery to be made.
struct Delivery {
  std::shared_ptr<const delivery::Incoming> message;
  mail::Recipient recipient;
  std::string sender;  // of the envelope, or the owner- alias
  WallTime now{};
  unsigned long long unique = 0, random = 0;  // for the names of files
  // Forward files that led here, outermost first: a user whose file is among them gets the mail in the mailbox.
  std::vector<std::string> followed = {};
  std::shared_ptr<Tour> tour = std::make_shared<Tour>();
};

/// The values of mailbox_transport_maps and mailbox_command_maps for a user, else those of mailbox_transport and
/// mailbox_command; "": none. An error counts only where its table is needed.
struct UserTables {
  Result<std::string> transport, command;
};

/// The result of a delivery: one of all but `warning` is set.
struct Outcome {
  std::optional<mail::DeliveryStatus> status = {};  // the delivery is settled
  std::string relay_to = {};                        // an address: luser_relay
  std::string pass_to = {};                         // "transport:nexthop": mailbox_transport, fallback_transport
  std::optional<Expansion> forward = {};            // the expansion of the user's forward file
  std::string forward_file = {};                    // its name
  bool unknown = false;      // there is no such account, and mailbox_transport has nothing for it: to_unknown_user()
  std::string warning = {};  // beside any of these: why an existing forward file was not followed
};

mail::DeliveryStatus deferred(std::string dsn, std::string text);
mail::DeliveryStatus failed(std::string dsn, std::string text);
/// The status for an expansion that failed.
mail::DeliveryStatus expansion_trouble(const Error& e);

/// The rules for expanding what a recipient with this address leads to.
ExpandRules expansion_rules(const Rules& rules, const std::string& address);

/// The address of a user that a recipient leads to: the recipient's own user in the recipient's domain, a user that an
/// alias names in myorigin, which completes the names in aliases. user: external form, with extension.
std::string user_address(const std::string& user, const Rules& rules, const std::string& recipient);

/// The name of the account that a user's mail is for. user: external form, with extension.
std::string account_name(const std::string& user, const Rules& rules);

/// The aliases of a name in external form.
Result<Expansion> expand_name(const Shared& shared, const std::string& address);

/// See list_owner().
Result<std::string> owner_of(const Shared& shared, const std::string& address);

/// The group that may create files in a shared spool directory, if the directory is set up that way (Debian: 2775
/// root:mail).
std::optional<gid_t> spool_group(const std::string& directory);

/// Aims at "~/path". As with home_mailbox, links in the home directory are followed if their target directory is the
/// user's. A path with ".." is left alone. home: absolute.
void aim_below_home(const std::string& home, const std::string& path, mailbox::Target& target);

/// Work for map::Asker, like fallback_for(): table servers may have to be asked. user: as in account_name().
UserTables tables_for(const Shared& shared, const std::string& user);
/// What fallback_transport_maps says for a user, else fallback_transport; "": nothing.
Result<std::string> fallback_for(const Shared& shared, const std::string& user);

/// Delivers to a user's mailbox, or returns where the user sends the mail. user: with extension. skip_forward:
/// ignores forward files and luser_relay ("\\user").
Outcome deliver_to_user(const Shared& shared, const Delivery& task, const std::string& user, bool skip_forward,
                        const UserTables& tables);
/// Where mail for a user without account goes: fallback_transport, luser_relay, or back. fallback: that of
/// fallback_for(). Does not block.
Outcome to_unknown_user(const Shared& shared, const Delivery& task, const std::string& user, bool skip_forward,
                        const Result<std::string>& fallback);
/// Delivers to a command or a file of an alias or forward file.
mail::DeliveryStatus deliver_directly(const Shared& shared, const Delivery& task, const Direct& direct);

}  // namespace pen::local
