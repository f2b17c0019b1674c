"""A scikit-learn pipeline that ends in a torch network, with a grid search over it."""

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.metrics import classification_report
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(dropout)
        )

    def forward(self, x):
        return x + self.body(x)


class Network(nn.Module):
    def __init__(self, features, classes, width=32, depth=2, dropout=0.1):
        super().__init__()
        self.stem = nn.Linear(features, width)
        self.blocks = nn.ModuleList([Residual(width, dropout) for _ in range(depth)])
        self.head = nn.Linear(width, classes)
        self.apply(self._init)

    @staticmethod
    def _init(module):
        if isinstance(module, nn.Linear):
            nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class TorchClassifier(ClassifierMixin, BaseEstimator):
    def __init__(self, width=32, depth=2, lr=0.01, epochs=3, batch_size=32, seed=0):
        self.width = width
        self.depth = depth
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.seed = seed

    def fit(self, X, y):
        torch.manual_seed(self.seed)
        self.classes_, targets = np.unique(y, return_inverse=True)
        self.n_features_in_ = X.shape[1]
        data = TensorDataset(
            torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(targets, dtype=torch.long)
        )
        loader = DataLoader(data, self.batch_size, shuffle=True, drop_last=True)
        self.network_ = Network(X.shape[1], len(self.classes_), self.width, self.depth)
        optimizer = torch.optim.Adam(self.network_.parameters(), lr=self.lr)
        self.losses_ = []
        for _ in range(self.epochs):
            self.losses_.append(self._epoch(loader, optimizer))
        return self

    def _epoch(self, loader, optimizer):
        self.network_.train()
        total = 0.0
        for x, y in loader:
            loss = self._loss(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total / len(loader)

    def _loss(self, x, y):
        logits = self.network_(x)
        penalty = sum(p.square().sum() for p in self.network_.parameters())
        return nn.functional.cross_entropy(logits, y, label_smoothing=0.05) + 1e-4 * penalty

    def decision_function(self, X):
        check_is_fitted(self)
        self.network_.eval()
        with torch.inference_mode():
            return self.network_(torch.as_tensor(X, dtype=torch.float32)).numpy()

    def predict_proba(self, X):
        return torch.softmax(torch.as_tensor(self.decision_function(X)), dim=1).numpy()

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def build(**settings):
    return Pipeline([("scale", StandardScaler()), ("net", TorchClassifier(**settings))])


X, y = make_classification(
    n_samples=200, n_features=12, n_informative=8, n_classes=3, random_state=0
)
labels = np.array(["red", "green", "blue"])[y]
X_train, X_test, y_train, y_test = train_test_split(X, labels, random_state=0, stratify=labels)

pipeline = build().fit(X_train, y_train)
print(pipeline)
print("losses", [f"{loss:.7f}" for loss in pipeline["net"].losses_])
print(classification_report(y_test, pipeline.predict(X_test), digits=4))
print("scores", cross_val_score(build(epochs=2), X_train, y_train, cv=2).round(6).tolist())

search = GridSearchCV(build(epochs=2, depth=1), {"net__width": [8, 16]}, cv=2)
search.fit(X_train, y_train)
results = search.cv_results_
for settings, score in zip(results["params"], results["mean_test_score"], strict=True):
    print(settings, f"{score:.6f}")
print("best", search.best_params_, f"{search.score(X_test, y_test):.6f}")
print(pipeline.predict_proba(X_test)[:3].round(6))
