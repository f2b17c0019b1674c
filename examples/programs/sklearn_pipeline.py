"""A scikit-learn pipeline whose features come from a torch network.

$ python sklearn_pipeline.py
$ python -m jitpkg run sklearn_pipeline.py
"""

import argparse
import os
import sys
import tempfile
import time
import warnings

import joblib
import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import classification_report
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from sklearn.utils.validation import check_is_fitted
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self, inputs, hidden, code):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, code)
        )
        self.decoder = nn.Sequential(
            nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, inputs), nn.Sigmoid()
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


class TorchFeatures(TransformerMixin, BaseEstimator):
    """The code of a denoising autoencoder, trained on what `fit` gets."""

    def __init__(
        self, code=16, hidden=32, epochs=2, batch_size=64, lr=1e-2, noise=0.1, seed=0, compile=False
    ):
        self.code = code
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.noise = noise
        self.seed = seed
        self.compile = compile

    def fit(self, X, y=None):
        torch.manual_seed(self.seed)
        X = torch.as_tensor(np.asarray(X), dtype=torch.float32)
        self.n_features_in_ = X.shape[1]
        self.module_ = Autoencoder(X.shape[1], self.hidden, self.code)
        if self.compile:
            import jitpkg

            self.module_ = jitpkg.compile(self.module_)
        optimizer = torch.optim.Adam(self.module_.parameters(), lr=self.lr)
        loss_fn = nn.MSELoss()
        self.history_ = []
        for _ in range(self.epochs):
            self.module_.train()
            total = 0.0
            for rows in torch.randperm(len(X)).split(self.batch_size):
                batch = X[rows]
                noisy = batch + self.noise * torch.randn_like(batch)
                optimizer.zero_grad()
                loss = loss_fn(self.module_(noisy), batch)
                loss.backward()
                optimizer.step()
                total += loss.item() * len(rows)
            self.history_.append(total / len(X))
        return self

    @torch.no_grad()
    def transform(self, X):
        check_is_fitted(self)
        self.module_.eval()
        X = torch.as_tensor(np.asarray(X), dtype=torch.float32)
        return torch.cat([self.module_.encoder(part) for part in X.split(self.batch_size)]).numpy()


def rows_and_columns(X):
    images = torch.as_tensor(X).view(-1, 8, 8)
    return torch.cat([images.mean(1), images.std(2), images.amax((1, 2))[:, None]], dim=1).numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--codes", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")

    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X[: args.samples], y[: args.samples], test_size=0.25, random_state=0
    )
    features = FeatureUnion(
        [
            ("code", TorchFeatures(epochs=args.epochs, hidden=args.hidden, compile=args.compile)),
            ("pca", PCA(8, random_state=0)),
            ("sums", FunctionTransformer(rows_and_columns)),
        ]
    )
    pipeline = Pipeline(
        [
            ("scale", MinMaxScaler()),
            ("features", features),
            ("classifier", LogisticRegression(max_iter=60)),
        ]
    )
    search = GridSearchCV(pipeline, {"features__code__code": args.codes}, cv=2, refit=True)
    search.fit(X_train, y_train)
    print("best:", search.best_params_)
    print("scores:", np.round(search.cv_results_["mean_test_score"], 3).tolist())
    best = search.best_estimator_
    code = best.named_steps["features"].transformer_list[0][1]
    print("losses:", np.round(code.history_, 4).tolist())
    for k in range(args.rounds):
        began = time.perf_counter()
        predicted = best.predict(X_test)
        print(f"step {k}: {1000 * (time.perf_counter() - began):.2f} ms", file=sys.stderr)
    print(classification_report(y_test, predicted, digits=3, zero_division=0))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pipeline.joblib")
        joblib.dump(best, path)
        again = joblib.load(path)
    print("saved and loaded:", bool((again.predict(X_test) == predicted).all()))


if __name__ == "__main__":
    main()
