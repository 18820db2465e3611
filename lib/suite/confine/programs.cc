#include "lib/suite/confine/programs.h"

#include <linux/capability.h>

#include <algorithm>
#include <array>

#include "lib/base/text.h"

namespace pen::confine {
namespace {

template <class... Bits>
constexpr Capabilities set_of(Bits... bits) {
  return ((Capabilities{1} << bits) | ...);
}

// To become an account, below chroot= of pipe; to be nobody for good between accounts (lib/send/mailbox/confine.h);
// to reach the place that an account's rights are confined to.
constexpr Capabilities kHelps = set_of(CAP_SETUID, CAP_SETGID, CAP_SYS_CHROOT, CAP_SETPCAP, CAP_DAC_READ_SEARCH);

constexpr Program kUnknown{};

constexpr std::array kPrograms = {
    // name, kind, network, writes, capabilities, whole bounding set, account
    Program{"smtpd", Kind::confined, Network::dns, kTicketKeys | kTested},
    Program{"smtp", Kind::confined, Network::any},
    Program{"lmtp", Kind::confined, Network::any},
    Program{"trivial-rewrite", Kind::confined, Network::dns, kPolicies},
    Program{"qmgr", Kind::confined, Network::named, kQueueLog | kSpool | kDestinations | kMaildrop, 0, false,
            Account::queue},
    // What qmgr leaves behind as mail_owner to look into maildrop for it.
    Program{"maildrop", Kind::confined, Network::none, kMaildrop},
    Program{"bounce", Kind::confined, Network::named},
    Program{"pickup", Kind::confined, Network::named, kMaildrop | kCorrupt},
    Program{"qmqpd", Kind::confined, Network::dns},
    Program{"verify", Kind::confined, Network::named, kProbes},
    Program{"anvil", Kind::confined, Network::named, kSenders},
    Program{"keys", Kind::confined, Network::none},
    // Plugins ask databases and directories, which the options of an application name.
    Program{"cyrus", Kind::confined, Network::any, kNothing, 0, false, Account::logins},
    Program{"tlsrpt", Kind::confined, Network::any, kTlsReports | kPolicyLocks},
    Program{"dmarcrpt", Kind::confined, Network::dns, kDmarcReports},
    Program{"penapi", Kind::confined, Network::none, kHistory | kSubmissions, 0, false, Account::orders},
    Program{"penevents", Kind::confined, Network::any, kUndelivered | kEvents},
    Program{"error", Kind::confined, Network::none},
    Program{"retry", Kind::confined, Network::none},
    Program{"discard", Kind::confined, Network::none},
    // Modules of the name service may ask servers for accounts, and what cannot be asked looks like no account.
    Program{"local", Kind::confined, Network::any},
    Program{"virtual", Kind::confined, Network::named},
    Program{"pipe", Kind::confined, Network::named},
    // Its listening sockets are master's.
    Program{"spawn", Kind::confined, Network::none},
    // The processes that these four leave behind as root (lib/send/mailbox/helper.h).
    Program{"become", Kind::becomes, Network::any, kNothing, kHelps, true},
};

}  // namespace

std::span<const Program> programs() { return kPrograms; }

std::string_view settings_name(std::string_view name) {
  if (name == "lmtp") return "smtp";
  if (name == "retry" || name == "discard") return "error";
  return name;
}

bool reads(const config::Row& row, std::string_view name) {
  if (row.kind == config::Class::obsolete) {  // a program that reads its successor reads it too
    const config::Row* successor = config::find_row(row.successor);
    return successor != nullptr && reads(*successor, name);
  }
  if (row.kind != config::Class::acts) return false;
  return row.programs == "all" || std::ranges::count(split_list(row.programs), name) != 0;
}

const Program& row_of(std::string_view name) {
  const auto at = std::ranges::find(kPrograms, name, &Program::name);
  return at == kPrograms.end() ? kUnknown : *at;
}

}  // namespace pen::confine
