/// become: the one process beside master that stays root. See man/become.8 and docs/root-helper.md.
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "lib/base/version.h"
#include "lib/send/mailbox/helper.h"
#include "lib/send/mailbox/start_helper.h"
#include "lib/suite/service/helper_link.h"
#include "lib/suite/service/table_opener.h"

namespace {

using namespace pen;

/// What the configuration has of a program that is about to be started. nullopt: it cannot be read; the program finds
/// that itself, and says so.
std::optional<mailbox::Asker> introduce(std::string_view packet) {
  const auto said = decode<service::Introduction>(packet);
  const auto arguments = said ? service::Arguments::parse(said->words) : std::unexpected(std::string());
  if (!arguments) return std::nullopt;
  const auto config = config::load(config::config_directory(arguments->config_directory), arguments->settings());
  if (!config) return std::nullopt;
  const auto owners = service::owners(config->settings());
  mailbox::Asker asker;
  asker.program = said->program;
  asker.policy.service = mailbox::Policy::Service::tables;
  if (!owners || !mailbox::complete(asker.policy, *config, *arguments, *owners)) return std::nullopt;
  const auto tables = std::make_shared<service::LentTables>(*config, *owners, said->program);
  asker.open_table = [tables](const std::string& path) { return tables->open(path); };
  return asker;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::printf("become %s\n", std::string(pen::version()).c_str());
    return EX_OK;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    std::printf(
        "become: becomes users, and opens tables, for programs that are not root. master starts it; see become(8)\n");
    return EX_OK;
  }
  if (!pen::mailbox::is_helper(argc, argv) || argc != 3) {
    std::fprintf(stderr, "become: master starts this program; see become(8)\n");
    return EX_USAGE;
  }
  const auto config = pen::config::load(argv[2]);
  pen::mailbox::run_helper(!config || config->settings().confine_privileges, introduce);
}
