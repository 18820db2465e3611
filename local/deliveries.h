#pragma once
/// The part of local delivery that blocks: accounts, and deliveries in a process of their own (lib/mailbox/child.h).
///
/// Rights:  never root's. A user's mail is delivered as the user; root's, and what belongs to nobody in particular,
///          with default_privs; commands and files of an alias as expand.h says.
/// Thread:  any number at once, on handler threads; what is called concurrently must not change.
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "lib/mailbox/incoming.h"
#include "local/rules.h"

namespace pen::local {

/// Everything that is the same for all deliveries.
struct Shared {
  Rules rules;
  map::MapList aliases;
};

/// What one try at a recipient has done so far, whatever way it came there: so that forward files that lead to one
/// another cost each of them once, and a mailbox gets the message once. Its deliveries are made one after the other.
struct Tour {
  std::set<std::string> files;  // forward files that were followed
  // accounts with mailboxes; names with extension where a command or transport takes the mail, which may go by it
  std::set<std::string> boxes;
  std::size_t destinations = 0;  // ExpandRules::limit at most
};

/// One delivery to be made.
struct Delivery {
  std::shared_ptr<const mailbox::Incoming> message;
  mail::Recipient recipient;
  std::string sender;  // of the envelope, or the owner- alias
  WallTime now{};
  unsigned long long unique = 0, random = 0;  // for the names of files
  // forward files that led here, the outermost first: not followed again, the user has a mailbox
  std::vector<std::string> followed = {};
  std::shared_ptr<Tour> tour = std::make_shared<Tour>();
};

/// What mailbox_transport_maps and mailbox_command_maps say for a user, else mailbox_transport and mailbox_command; "":
/// nothing. Each error counts only where its table is needed.
struct UserTables {
  Result<std::string> transport, command;
};

/// How far a delivery came: one of the five.
struct Outcome {
  std::optional<mail::DeliveryStatus> status = {};  // it is settled
  std::string relay_to = {};                        // an address: luser_relay
  std::string pass_to = {};                         // "transport:nexthop": mailbox_transport, fallback_transport
  std::optional<Expansion> forward = {};            // the user's forward file says so
  std::string forward_file = {};                    // which
  bool unknown = false;      // there is no such account, and mailbox_transport has nothing for it: to_unknown_user()
  std::string warning = {};  // with any of these: why a forward file that is there was not obeyed
};

mail::DeliveryStatus deferred(std::string dsn, std::string text);
mail::DeliveryStatus failed(std::string dsn, std::string text);
/// An expansion that did not come about.
mail::DeliveryStatus expansion_trouble(const Error& e);

/// The rules for expanding what a recipient with this address leads to.
ExpandRules expansion_rules(const Rules& rules, const std::string& address);

/// The address of a user whom a recipient's aliases lead to: in the recipient's domain, else in myorigin.
/// user: external form, with extension.
std::string user_address(const std::string& user, const Rules& rules, const std::string& recipient);

/// The name of the account that a user's mail is for. user: external form, with extension.
std::string account_name(const std::string& user, const Rules& rules);

/// The aliases of a name in external form.
Result<Expansion> expand_name(const Shared& shared, const std::string& address);

/// list_owner() of an address.
Result<std::string> owner_of(const Shared& shared, const std::string& address);

/// Where "~/path" is: as with home_mailbox, links in the home directory to directories of its user are followed.
/// Nothing changes for a path with "..". home: absolute.
void aim_below_home(const std::string& home, const std::string& path, mailbox::Target& target);

/// Work for map::Asker, like fallback_for(): table servers may have to be asked. user: as in account_name().
UserTables tables_for(const Shared& shared, const std::string& user);
/// What fallback_transport_maps says for a user, else fallback_transport; "": nothing.
Result<std::string> fallback_for(const Shared& shared, const std::string& user);

/// To a user's mailbox, or on as the user has it. user: with extension. skip_forward: forward files and luser_relay do
/// not count ("\\user").
Outcome deliver_to_user(const Shared& shared, const Delivery& task, const std::string& user, bool skip_forward,
                        const UserTables& tables);
/// To fallback_transport or luser_relay, if there is one. fallback: that of fallback_for(). Does not block.
Outcome to_unknown_user(const Shared& shared, const Delivery& task, const std::string& user, bool skip_forward,
                        const Result<std::string>& fallback);
/// To a command or a file of an alias or forward file.
mail::DeliveryStatus deliver_directly(const Shared& shared, const Delivery& task, const Direct& direct);

}  // namespace pen::local
