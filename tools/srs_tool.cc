#include "tools/srs_tool.h"

#include <nlohmann/json.hpp>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/receive/resolve/from_settings.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "pensrs";
constexpr std::size_t kMaxAddress = 2000;

}  // namespace

std::expected<SrsTool::Options, service::Ending> SrsTool::read(int argc, const char* const* argv) {
  Options o;
  const service::CommandLine line{
      .program = kProgram,
      .usage = {"pensrs [-c DIR] [-j] forward|reverse ADDRESS"},
      .about = "Shows what a Penstock instance makes of sender addresses when it forwards mail (SRS).",
      .options = {{"forward ADDRESS", "what stands for this sender; the address itself if it stays"},
                  {"reverse ADDRESS", "the sender that this address stands for"},
                  {"-j, --json", "a JSON object", service::set(o.json)},
                  service::directory_option(o.directory)}};
  const auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  if (words->empty()) return std::unexpected(line.incomplete());
  o.reverse = words->front() == "reverse";
  if (!o.reverse && words->front() != "forward")
    return std::unexpected(line.misuse("unknown command: " + readable(words->front())));
  if (words->size() != 2) return std::unexpected(line.misuse(words->front() + " takes an ADDRESS"));
  o.address = words->at(1);
  if (!mail::has_domain(o.address) || o.address.size() > kMaxAddress)
    return std::unexpected(line.misuse("not an address: " + readable(o.address, 100)));
  return o;
}

int SrsTool::tell(const std::string& address, const std::string& fault) const {
  if (options_.json) {
    nlohmann::ordered_json out = {{"address", readable(options_.address)}};
    if (fault.empty())
      out["result"] = readable(address);
    else
      out["fault"] = fault;
    print(out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else if (fault.empty()) {
    print(readable(address) + "\n");
  } else {
    die(kProgram, EX_DATAERR, readable(options_.address) + ": " + fault);
  }
  return fault.empty() ? EX_OK : EX_DATAERR;
}

int SrsTool::run() {
  const config::Config config = load_instance(kProgram, options_.directory);
  if (config.settings().srs_domain.empty()) die(kProgram, EX_CONFIG, "srs_domain is not set");
  const auto resolve = resolve::Resolve::open(resolve::from_settings(config.settings()));
  if (!resolve) die(kProgram, EX_CONFIG, resolve.error().message());
  const std::string address = (*resolve)->rewrite(options_.address);
  if (!options_.reverse) {
    const auto sender = (*resolve)->forwarded_sender(address);
    if (!sender) die(kProgram, EX_TEMPFAIL, sender.error().message());
    return tell(sender->empty() ? address : *sender, {});
  }
  const auto original = (*resolve)->original_sender(address);
  if (!original) return tell({}, "not a rewritten address of " + config.settings().srs_domain);
  return tell(*original ? **original : std::string(), *original ? std::string() : original->error().message());
}

}  // namespace pen::tools
