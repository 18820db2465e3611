#include "lib/confine/programs.h"

#include <linux/capability.h>

#include <algorithm>
#include <array>

namespace pen::confine {
namespace {

template <class... Bits>
constexpr Capabilities set_of(Bits... bits) {
  return ((Capabilities{1} << bits) | ...);
}

// To become a user, and to reach that user's files and processes before and after.
constexpr Capabilities kBecomes =
    set_of(CAP_SETUID, CAP_SETGID, CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_KILL);
// For chroot= of pipe.
constexpr Capabilities kChangesRoot = set_of(CAP_SYS_CHROOT);

constexpr Program kUnknown{};

constexpr std::array kPrograms = {
    // name, kind, network, writes, capabilities, whole bounding set
    Program{"smtpd", Kind::confined, Network::dns, kTicketKeys | kTested},
    Program{"smtp", Kind::confined, Network::any},
    Program{"lmtp", Kind::confined, Network::any},
    Program{"trivial-rewrite", Kind::confined, Network::dns, kData},
    Program{"qmgr", Kind::confined, Network::named, kQueueLog | kSpool | kData | kMaildrop},
    Program{"bounce", Kind::confined, Network::named},
    Program{"pickup", Kind::confined, Network::named, kMaildrop | kCorrupt},
    Program{"verify", Kind::confined, Network::named, kData | kProbes},
    Program{"anvil", Kind::confined, Network::none, kData},
    Program{"tlsrpt", Kind::confined, Network::any, kData},
    Program{"penapi", Kind::confined, Network::none},
    Program{"error", Kind::confined, Network::none},
    Program{"retry", Kind::confined, Network::none},
    Program{"discard", Kind::confined, Network::none},
    Program{"local", Kind::becomes, Network::any, kNothing, kBecomes},
    Program{"virtual", Kind::becomes, Network::any, kNothing, kBecomes},
    Program{"pipe", Kind::becomes, Network::any, kNothing, kBecomes | kChangesRoot},
    Program{"spawn", Kind::becomes, Network::any, kNothing, kBecomes, true},
};

}  // namespace

std::span<const Program> programs() { return kPrograms; }

std::string_view settings_name(std::string_view name) {
  if (name == "lmtp") return "smtp";
  if (name == "retry" || name == "discard") return "error";
  return name;
}

const Program& row_of(std::string_view name) {
  const auto at = std::ranges::find(kPrograms, name, &Program::name);
  return at == kPrograms.end() ? kUnknown : *at;
}

}  // namespace pen::confine
