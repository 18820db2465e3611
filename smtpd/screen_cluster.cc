#include "smtpd/screen_cluster.h"

#include <utility>

#include "lib/base/log.h"

namespace pen::smtpd {

ScreenCluster::ScreenCluster(async::Loop& loop, Screener& screener, redis::ClientOptions options, std::string prefix)
    : loop_(loop),
      hints_(loop, std::move(options), std::move(prefix) + "triage:", [](bool shared, const std::string& line) {
        if (shared)
          log::info("clients that passed the tests: {}", line);
        else
          log::warning("clients that passed the tests: {}", line);
      }) {
  screener.find_elsewhere = [this](std::string key) { return find(this, std::move(key)); };
  screener.tell_others = [this](const std::string& key, const triage::Record& record) { tell(key, record); };
}

async::Task<std::optional<triage::Record>> ScreenCluster::find(ScreenCluster* cluster, std::string key) {
  if (!cluster->hints_.is_up()) co_return std::nullopt;
  const auto text = co_await cluster->hints_.find(std::move(key));
  co_return text ? triage::Record::parse(*text) : std::nullopt;
}

void ScreenCluster::tell(const std::string& key, const triage::Record& record) {
  hints_.tell(key, record.text(), seconds(record.end() - unix_seconds(loop_.clock().wall_now())));
}

}  // namespace pen::smtpd
