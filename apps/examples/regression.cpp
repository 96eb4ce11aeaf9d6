// Learns the column "price" of a CSV file with a linear model.

#include <iostream>
#include <troupe/troupe.hpp>

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "regression FILE.csv: name a table with the column price\n";
    return 2;
  }
  const std::string file = arguments[1];
  // [doc:begin regression]
  namespace models = troupe::models;
  const auto rows = troupe::data::csv(file, {.targets = {"price"}});
  const auto [train, test] =
    rows.shuffle(troupe::data::whole_dataset, 1, /*each_epoch=*/false)
      .split(0.8);

  const auto inputs = rows.element().dims; // [columns besides price]
  troupe::model model{{.name = "line",
                       .input = inputs,
                       .layers = models::stack(models::dense{1})},
                      troupe::sgd{.learning_rate = 0.1f},
                      {.loss = "mean_squared_error"}};
  const auto history =
    model.fit(train.shuffle().batch(32),
              {.epochs = 50,
               .validation = test.batch(256),
               .metrics = {{models::mean_absolute_error_metric()}}});
  for (const auto& [name, value] : history.last().validation_metrics)
    std::cout << name << ' ' << value << '\n';
  // [doc:end]
  std::cout << "mean squared error " << history.last().validation_loss << '\n';
}
