/// What tenants weigh by tables that answer at once, later, wrongly or not at all.
#include "qmgr/tenant_weights.h"

#include <boost/test/unit_test.hpp>

namespace pen::qmgr {

BOOST_AUTO_TEST_SUITE(tenant_weights)

BOOST_AUTO_TEST_CASE(tables_name_weights_and_whoever_is_not_there_has_the_usual_one) {
  async::Loop loop;
  BOOST_TEST((TenantWeights::open(loop, "", {}).value() == nullptr));
  const auto weights =
      TenantWeights::open(loop, "inline:{ acme=300, small=1, wrong=0, heavy=1001, words=much }", {}).value();
  BOOST_TEST(weights->of("acme") == 300U);
  BOOST_TEST(weights->of("small") == 1U);
  BOOST_TEST(weights->of("other") == TenantWeights::kUsual);
  BOOST_TEST(weights->of("") == TenantWeights::kUsual);
  for (const char* wrong : {"wrong", "heavy", "words"}) BOOST_TEST(weights->of(wrong) == TenantWeights::kUsual);
  for (const char* unanswering : {"fail:broken", "nothing:x"})
    BOOST_TEST(TenantWeights::open(loop, unanswering, {}).value()->of("acme") == TenantWeights::kUsual);
}

BOOST_AUTO_TEST_CASE(a_table_that_waits_answers_later) {
  async::Loop loop;
  // unix: asks the name service, which may wait: root's line of the accounts is no weight, nobody has none.
  const auto weights = TenantWeights::open(loop, "unix:passwd.byname inline:{ acme=7 }", {}).value();
  std::string told;
  weights->when_known([&](std::string_view tenant, std::uint32_t weight) {
    told = std::string(tenant) + "=" + std::to_string(weight);
    loop.stop();
  });
  BOOST_TEST(weights->of("acme") == TenantWeights::kUsual);
  BOOST_TEST(weights->of("acme") == TenantWeights::kUsual);  // asked once
  loop.run();
  BOOST_TEST(told == "acme=7");
  BOOST_TEST(weights->of("acme") == 7U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
